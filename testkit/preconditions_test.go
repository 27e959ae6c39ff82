package testkit_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// How a write ensures that it changes what was observed and nothing else.
const (
	byUID     = "the UID"
	byVersion = "the resourceVersion of what was read"
	whatever  = "none: " // The reason follows.
)

// writes lists all writes of the product to an apiserver, except creations: where they are, and their precondition.
var writes = map[string]string{
	"cmd/kubectl-kruise/change.go write: Patch":                 byVersion,
	"cmd/kubectl-kruise/cluster_accept.go acceptCommand: Patch": byUID,
	"cmd/kubectl-kruise/cluster_taint.go changeTaints: Patch":   byVersion,
	"cmd/kubectl-kruise/cluster_token.go mint: Delete":          byUID,
	"cmd/kubectl-kruise/migrate.go resize: Update":              byVersion,
	"cmd/kubectl-kruise/migrate_copy.go writeLists: Patch":      byVersion,
	"cmd/kubectl-kruise/scale.go scale: Update":                 byVersion,

	"hub/cluster/apply.go admit: Patch":                 byVersion,
	"hub/cluster/apply.go drop: Delete":                 byUID,
	"hub/cluster/apply.go ensure: Apply":                whatever + "an object that somebody has made in its place must have the same content; the hub's policy restricts the names",
	"hub/cluster/apply.go forget: Patch":                byVersion,
	"hub/cluster/apply.go leave: Delete":                byVersion,
	"hub/cluster/apply.go release: Delete":              byUID,
	"hub/cluster/apply.go release: Patch":               byVersion,
	"hub/cluster/approver.go answer: Update":            byVersion,
	"hub/cluster/approver.go bind: Patch":               byVersion,
	"hub/cluster/beat.go renew: Apply":                  whatever + "it renews the hub's own Lease, whoever has made it",
	"hub/cluster/controller.go writeStatus: Apply":      byUID,
	"hub/cluster/tombstone.go finish: Delete":           byUID,
	"hub/cluster/tombstone.go updateEpoch: Patch":       byVersion,
	"hub/clusterprofile/controller.go publish: Apply":   byUID + ", but for a creation: one that another client makes at the same moment is refused if the two differ",
	"hub/clusterprofile/controller.go withdraw: Delete": byUID,

	"hub/placement/client.go changeFinalizer: Patch": byVersion,
	"hub/row/breaker.go pause: Patch":                byVersion,
	"hub/row/cleaner.go Reconcile: Patch":            byVersion,
	"hub/row/cleaner.go collect: Delete":             byUID,
	"hub/row/store.go Put: Update":                   byVersion,
	"hub/row/store.go Withdraw: Delete":              byUID,
	"hub/row/store.go Withdraw: Update":              byVersion,

	"hub/approval/store.go Remove: Delete":                byUID,
	"hub/uniteddeployment/dependencies.go update: Update": byVersion,
	"hub/uniteddeployment/dependencies.go remove: Delete": byVersion,
	"hub/uniteddeployment/history.go trim: Delete":        byUID,

	"member/admission/ask.go announce: Patch":     byVersion,
	"member/admission/entries.go maintain: Patch": byVersion,

	"member/agent/apply.go deleteByUID: Delete":                        byUID,
	"member/agent/apply.go orphan: Patch":                              byUID,
	"member/agent/apply.go apply: Apply":                               byUID + ", but for a creation: one that another client makes at the same moment is refused if the two differ",
	"member/agent/binding.go applyStatus: Apply":                       byUID,
	"member/agent/binding.go bind: Update":                             byVersion,
	"member/agent/binding.go storeEpoch: Patch":                        byVersion,
	"member/agent/connect/credential.go Forget: Delete":                byUID,
	"member/agent/connect/credential.go store: Update":                 byVersion,
	"member/agent/connect/join.go sign: Delete":                        byUID,
	"member/agent/contact.go writeConditions: Patch":                   byVersion,
	"member/agent/controller.go writeStatus: Patch":                    byVersion,
	"member/agent/heartbeat.go renew: Patch":                           whatever + "it renews the Lease of this member, also if the hub has made it again; a read before each renewal would double its requests",
	"member/agent/leave.go deleteMembership: Delete":                   byUID,
	"member/agent/ledger.go deleteLine: Delete":                        byUID,
	"member/agent/ledger.go put: Update":                               byVersion,
	"member/agent/observe.go observeAdoption: Apply":                   byUID + ", and it is a dry run",
	"member/agent/unclaimed.go clearDecision: Update":                  byVersion,
	"member/agent/write.go moveToApplyEntry: Patch":                    byVersion,
	"member/agent/write.go createOrPatch: Patch":                       byVersion,
	"member/image/imagepulljob/apply.go release: Patch":                byVersion,
	"member/image/imagepulljob/apply.go send: Apply":                   byUID,
	"member/image/nodeimage/apply.go apply: Delete":                    byUID,
	"member/image/nodeimage/apply.go apply: Patch":                     byVersion,
	"member/image/predownload/controller.go mark: Patch":               byVersion,
	"member/node/env/apply.go write: Patch":                            byUID,
	"member/node/image/controller.go write: Patch":                     byVersion,
	"member/node/probe/controller.go write: Patch":                     whatever + "only the daemon writes this status, as a whole; results name the UIDs of pods, and results of other pods are dropped with the next write",
	"member/node/recreate/controller.go write: Patch":                  byVersion,
	"member/pod/containerrecreaterequest/apply.go apply: Delete":       byUID,
	"member/pod/containerrecreaterequest/apply.go setFinalizer: Patch": byVersion,
	"member/pod/containerrecreaterequest/apply.go setReadiness: Patch": byVersion,
	"member/pod/containerrecreaterequest/apply.go write: Patch":        byVersion,
	"member/pod/enhancedliveness/apply.go apply: Delete":               byUID,
	"member/pod/ephemeraljob/apply.go addContainers: Patch":            byVersion,
	"member/pod/ephemeraljob/apply.go release: Patch":                  byVersion,
	"member/pod/launchpriority/apply.go add: Patch":                    byVersion,
	"member/pod/launchpriority/apply.go apply: Patch":                  byVersion,
	"member/pod/nodepodprobe/apply.go apply: Delete":                   byUID,
	"member/pod/nodepodprobe/apply.go apply: Patch":                    byUID,
	"member/pod/persistentpodstate/apply.go apply: Delete":             byUID,
	"member/pod/persistentpodstate/apply.go apply: Patch":              byVersion,
	"member/pod/podprobemarker/controller.go release: Patch":           byVersion,
	"member/pod/podunavailablebudget/apply.go apply: Patch":            byUID,
	"member/pod/probedpod/apply.go write: Patch":                       byUID,
	"member/pod/sidecarset/apply.go relabel: Patch":                    byVersion,
	"member/pod/sidecarterminator/apply.go apply: Patch":               byVersion,
	"member/pod/workloadspread/apply.go apply: Delete":                 byVersion,
	"member/pod/workloadspread/apply.go patch: Patch":                  byUID,
	"member/resource/resourcedistribution/apply.go create: Apply":      byVersion,
	"member/resource/resourcedistribution/apply.go prune: Patch":       byVersion,
	"member/resource/resourcedistribution/apply.go remove: Delete":     byUID,
	"member/resource/resourcedistribution/apply.go update: Apply":      byUID,
	"member/workload/advancedcronjob/apply.go remove: Delete":          byUID,
	"member/workload/broadcastjob/apply.go pause: Patch":               byVersion,
	"member/workload/cloneset/apply.go truncate: Patch":                byVersion,
	"member/workload/uniteddeployment/apply.go delete: Delete":         byUID,
	"member/workload/uniteddeployment/apply.go deleteStuck: Delete":    byVersion,
	"member/workload/uniteddeployment/apply.go label: Patch":           byVersion,
	"member/workload/uniteddeployment/apply.go writeOne: Patch":        byVersion,

	"pkg/manager/cert/apply.go patch: Patch":             byVersion,
	"pkg/manager/cert/apply.go applyStep: Update":        byVersion,
	"pkg/control/job.go RemoveJob: Delete":               byUID,
	"pkg/control/groupwrite/groupwrite.go write: Update": byVersion,
	"pkg/manager/option/leader.go Update: Update":        byVersion,
	"pkg/noded/nodelease/lease.go Renew: Update":         byVersion,
	"pkg/workload/podcontrol/writer.go Delete: Delete":   byUID,
	"pkg/workload/podcontrol/writer.go patch: Patch":     byVersion,
	"pkg/workload/pulljob/pulljob.go Change: Update":     byVersion,
	"pkg/workload/pulljob/pulljob.go Drop: Delete":       byUID,
	"pkg/control/report/report.go Write: Patch":          byVersion,
	"pkg/control/revision/history.go Write: Patch":       byVersion,
	"pkg/control/revision/history.go takeOver: Patch":    byVersion,
}

// TestAttack21WritesHaveAPrecondition compares the table with the code: a new write needs a line, and a Delete must name its preconditions in
// place.
func TestAttack21WritesHaveAPrecondition(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	files := token.NewFileSet()
	for _, folder := range []string{"cmd", "hub", "member", "pkg"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, f := range functions(file) {
				body := text(t, files, f.Body)
				ast.Inspect(f.Body, func(n ast.Node) bool {
					verb, ours := write(n)
					if !ours {
						return true
					}
					where := filepath.ToSlash(strings.TrimPrefix(path, "../")) + " " + f.Name.Name + ": " + verb
					found[where] = true
					if verb == "Delete" {
						require.Contains(t, body, "client.Preconditions{UID: ", where)
					}
					if verb == "Patch" && strings.Contains(body, "client.MergeFrom(") {
						require.Failf(t, "a merge patch without a precondition", "%s", where)
					}
					return true
				})
			}
			return nil
		}))
	}
	require.Equal(t, slices.Sorted(maps.Keys(writes)), slices.Sorted(maps.Keys(found)))
	for where, how := range writes {
		require.True(t, strings.HasPrefix(how, byUID) || how == byVersion || strings.HasPrefix(how, whatever) && len(how) > 40, where)
	}
}

// functions returns the functions and methods in a file.
func functions(file *ast.File) []*ast.FuncDecl {
	var out []*ast.FuncDecl
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			out = append(out, f)
		}
	}
	return out
}

// write returns the verb of a call that may write to an apiserver: a client method with a context and an object.
func write(n ast.Node) (verb string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return "", false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Delete", "DeleteAllOf", "Patch", "Apply", "Update"}, method.Sel.Name) {
		return "", false
	}
	switch ctx := call.Args[0].(type) {
	case *ast.Ident:
		if ctx.Name != "ctx" {
			return "", false
		}
	case *ast.CallExpr: // cmd.Context()
		if last(ctx.Fun) != "Context" {
			return "", false
		}
	default:
		return "", false
	}
	receiver, ok := method.X.(*ast.Ident)
	switch {
	case ok && slices.Contains([]string{"applier", "r", "h", "now", "gathered"}, receiver.Name): // steps of a controller, and event handlers
		return "", false
	case !ok && (strings.HasSuffix(last(method.X), "Writer") || slices.Contains([]string{"spreads", "targets"}, last(method.X))):
		// These belong to podcontrol and placement, which are in the table themselves.
		return "", false
	}
	return method.Sel.Name, true
}

// last returns the name of the last selector in an expression.
func last(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

func text(t *testing.T, files *token.FileSet, n ast.Node) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, printer.Fprint(&out, files, n))
	return out.String()
}
