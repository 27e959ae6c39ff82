// Package member is the manager of one cluster: controllers and webhooks of the workload kinds, and, where the cluster
// has a hub that it joins by pull, the agent.
//
// Setup is the one list of what runs in it. A folder below that is named after a kind is that kind's whole home; none
// imports another kind's, and none imports package hub. Without a hub this is a complete installation.
package member

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-member paths=. paths=./workload/... output:rbac:dir=../charts/member/files
//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-agent,fileName=agent-role.yaml paths=./agent/... output:rbac:dir=../charts/member/files
//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-noded,fileName=noded-role.yaml paths=./node/... output:rbac:dir=../charts/member/files
