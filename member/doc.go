// Package member is the manager of one cluster. It runs the controllers and webhooks of the workload kinds and, if the cluster joins a hub by
// pull, the agent.
//
// Kinds is the single list of everything that runs in it. A folder named after a kind holds all of that kind; none imports another kind's
// folder, and none imports package hub. Without a hub, this is a complete installation.
package member

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-member webhook paths=. paths=./image/... paths=./pod/... paths=./resource/... paths=./workload/... output:dir=../charts/member/files
//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-agent,fileName=agent-role.yaml paths=./agent/... output:rbac:dir=../charts/member/files
//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-noded,fileName=noded-role.yaml paths=./node/... output:rbac:dir=../charts/member/files
