package option

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

func parse(t *testing.T, args ...string) *Manager {
	t.Helper()
	m := NewManager("flotilla-test")
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	m.AddFlags(f)
	require.NoError(t, f.Parse(args))
	return m
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	require.NoError(t, parse(t).Validate())
}

func TestHelp(t *testing.T) {
	t.Parallel()
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	NewManager("flotilla-test").AddFlags(f)
	golden.Equal(t, "manager-flags", f.FlagUsagesWrapped(120))
}

func TestValidateNamesFlagValueAndRemedy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, args, want string }{
		{"a namespace must be a name", "--namespace=Flotilla_System", "--namespace=Flotilla_System: must be the name of the namespace that this manager runs in"},
		{"a negative limit of requests", "--rest-config-qps=-1", "--rest-config-qps=-1: must not be negative; 0 is no limit"},
		{"a burst of 0", "--rest-config-burst=0", "--rest-config-burst=0: must be at least 1"},
		{
			"a lease must outlast its renewal", "--leader-election-lease-duration=10s",
			"--leader-election-lease-duration=10s: must be longer than --leader-election-renew-deadline",
		},
		{
			"a deadline must leave room for a retry", "--leader-election-retry-period=9s",
			"--leader-election-renew-deadline=10s: must be more than 1.2 times",
		},
		{"an address needs a port", "--metrics-addr=localhost", "--metrics-addr=localhost: must be host:port or :port"},
		{"a port must be a number", "--health-probe-addr=:http", "--health-probe-addr=:http: must be"},
		{"a port has 16 bits", "--pprof-addr=:65536", "--pprof-addr=:65536: must be"},
		{"a caller's URL must not have a path", "--webhook-url=https://127.0.0.1:9443/x", "--webhook-url: webhook URL"},
		{"a certificate must outlive the time in which it becomes trusted", "--webhook-settle-time=5000h", "not more than half of --webhook-cert-validity=8760h0m0s"},
		{"a CA must outlive its certificates", "--webhook-ca-validity=1h", "must be more than three times --webhook-cert-validity=8760h0m0s"},
		{"a certificate must have a validity", "--webhook-cert-validity=0s", "which must be above 0"},
		{"a Service needs a name", "--webhook-service=", "--webhook-service=: must be the name of a Service"},
		{"a Secret needs a name", "--webhook-secret=a/b", "--webhook-secret=a/b: must be the name of a Secret"},
		{"a Service needs a port", "--webhook-service-port=0", "--webhook-service-port=0: must be 1 to 65535"},
		{"an unknown log format", "--logging-format=text", "--logging-format=text: must be json or console"},
		{"a log level that is too high", "--v=11", "--v=11: must be 0 to 10"},
		{"a negative timeout", "--shutdown-timeout=-1s", "--shutdown-timeout=-1s: must not be negative"},
		{"a cache needs some time", "--controller-cache-sync-timeout=0s", "--controller-cache-sync-timeout=0s: must be above 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, parse(t, tc.args).Validate(), tc.want)
		})
	}
}

func TestValidateReportsAllAtOnce(t *testing.T) {
	t.Parallel()
	err := parse(t, "--rest-config-qps=-1", "--webhook-service=", "--logging-format=x").Validate()
	require.Len(t, strings.Split(err.Error(), "\n"), 3)
}

func TestAddressesMayBeOff(t *testing.T) {
	t.Parallel()
	require.NoError(t, parse(t, "--metrics-addr=0", "--health-probe-addr=0", "--pprof-addr=").Validate())
}

func TestListen(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		host string
		port int
	}{
		{"in a cluster the server listens on all addresses", nil, "", 9876},
		{"outside a cluster, the URL has the address", []string{"--webhook-url=https://127.0.0.1:9443"}, "127.0.0.1", 9443},
		{"a proxy in between needs both", []string{"--webhook-url=https://hooks.example.com:443", "--webhook-bind-addr=:8443"}, "", 8443},
		{"IPv6 without brackets", []string{"--webhook-url=https://[::1]:9443"}, "::1", 9443},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, tc.args...)
			require.NoError(t, m.Validate())
			host, port, err := m.Webhook.Listen()
			require.NoError(t, err)
			require.Equal(t, tc.host, host)
			require.Equal(t, tc.port, port)
		})
	}
}

func TestOptionsReachTheManager(t *testing.T) {
	t.Parallel()
	m := parse(t, "--namespace=ours", "--enable-leader-election=false", "--leader-election-lease-duration=40s",
		"--metrics-addr=:1", "--health-probe-addr=:2", "--pprof-addr=:3", "--controller-cache-sync-timeout=7s", "--shutdown-timeout=8s")
	o := m.Options()
	require.Equal(t, "flotilla-test", o.LeaderElectionID)
	require.Equal(t, "ours", o.LeaderElectionNamespace)
	require.False(t, o.LeaderElection)
	require.Equal(t, 40*time.Second, *o.LeaseDuration)
	require.Equal(t, ":1", o.Metrics.BindAddress)
	require.Equal(t, ":2", o.HealthProbeBindAddress)
	require.Equal(t, ":3", o.PprofBindAddress)
	require.Equal(t, 7*time.Second, o.Controller.CacheSyncTimeout)
	require.False(t, *o.Controller.UsePriorityQueue)
	require.Equal(t, 8*time.Second, *o.GracefulShutdownTimeout)
	require.Empty(t, parse(t).Options().PprofBindAddress, "profiles are off by default")
}

func TestCertificateFollowsTheFlags(t *testing.T) {
	t.Parallel()
	c := parse(t, "--namespace=ours", "--webhook-secret=kept", "--webhook-service=hook", "--webhook-cert-validity=1h",
		"--webhook-ca-validity=4h", "--webhook-settle-time=1m").Certificate("things.example.com")
	require.Equal(t, types.NamespacedName{Namespace: "ours", Name: "kept"}, c.Secret)
	require.Equal(t, "hook", c.Service.Name)
	require.Equal(t, "ours", c.Service.Namespace)
	require.Equal(t, []string{"flotilla-test"}, c.Mutating)
	require.Equal(t, []string{"flotilla-test"}, c.Validating)
	require.Equal(t, []string{"things.example.com"}, c.CRDs)
	require.Equal(t, time.Hour, c.ServingValidity)
	require.Equal(t, 4*time.Hour, c.CAValidity)
	require.Equal(t, time.Minute, c.Settle)
}

func TestRESTConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:6443"}}],
		"users":[{"name":"u","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`), 0o600))
	cfg, err := parse(t, "--kubeconfig="+file, "--rest-config-qps=7", "--rest-config-burst=9").RESTConfig()
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:6443", cfg.Host)
	require.InDelta(t, 7, cfg.QPS, 0)
	require.Equal(t, 9, cfg.Burst)
	require.Equal(t, "flotilla-test/"+Version, cfg.UserAgent)

	cfg, err = parse(t, "--kubeconfig="+file).RESTConfig()
	require.NoError(t, err)
	require.Negative(t, cfg.QPS, "without a flag there is no limit")

	_, err = parse(t, "--kubeconfig="+file+"-absent").RESTConfig()
	require.ErrorContains(t, err, "read --kubeconfig=")
}

func TestANamespaceThatOpenKruiseWouldServeIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "namespace")
	require.NoError(t, os.WriteFile(file, []byte("flotilla-system"), 0o600))
	require.NoError(t, parse(t).checkNamespace(file))
	require.NoError(t, parse(t, "--namespace=shop").checkNamespace(file+"-absent"), "not in a pod")
	require.NoError(t, parse(t, "--namespace=shop", "--kubeconfig=elsewhere").checkNamespace(file))
	require.NoError(t, parse(t, "--namespace=shop", "--webhook-url=https://127.0.0.1:9443").checkNamespace(file))
	require.ErrorContains(t, parse(t, "--namespace=shop").checkNamespace(file),
		"--namespace=shop: this pod runs in namespace flotilla-system: set --namespace=flotilla-system")
}

func TestRESTConfigOutsideACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := parse(t).RESTConfig()
	require.ErrorContains(t, err, "outside a cluster, set --kubeconfig")
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := parse(t, "-v=4").logger(&out).WithName("cert").WithValues("cluster", "east")
	log.Info("Deleted pod", "pod", klog.KRef("ns", "web-0"), "count", 3) //nolint:forbidigo // as controller-runtime logs
	log.V(1).Info("Waited", "after", time.Second)
	log.V(4).Info("Data", "key", "value")
	log.V(5).Info("Too much")
	log.Error(errors.New("no way"), "Could not go on")

	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		require.NotEmpty(t, entry["ts"])
		delete(entry, "ts")
		lines = append(lines, entry)
	}
	require.Empty(t, cmp.Diff([]map[string]any{
		{"level": "info", "logger": "cert", "msg": "Deleted pod", "cluster": "east", "pod": map[string]any{"name": "web-0", "namespace": "ns"}, "count": 3.0},
		{"level": "debug", "logger": "cert", "msg": "Waited", "cluster": "east", "after": 1.0},
		{"level": "v4", "logger": "cert", "msg": "Data", "cluster": "east", "key": "value"},
		{"level": "error", "logger": "cert", "msg": "Could not go on", "cluster": "east", "error": "no way"},
	}, lines))

	out.Reset()
	parse(t, "--logging-format=console").logger(&out).Info("Started")
	require.Contains(t, out.String(), "info\tStarted")
}

func TestHub(t *testing.T) {
	t.Parallel()
	hashed := "--hub-ca-hash=sha256:" + strings.Repeat("0a", 32)
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"a cluster without a hub needs nothing", nil, ""},
		{"a hub is pinned by a hash", []string{"--hub-url=https://hub:6443", "--cluster-name=east", hashed}, ""},
		{"or by its CA", []string{"--hub-url=https://hub:6443", "--cluster-name=east", "--hub-ca-file=ca.crt"}, ""},
		{"a hub is never trusted without one of them", []string{"--hub-url=https://hub:6443", "--cluster-name=east"}, "set --hub-ca-file or --hub-ca-hash"},
		{"a name without a hub is a mistake", []string{"--cluster-name=east"}, "require --hub-url, which is not set"},
		{"a hub can't be joined without a name", []string{"--hub-url=https://hub:6443", hashed}, "--cluster-name=: must be the name"},
		{"a hub uses TLS", []string{"--hub-url=http://hub:6443", "--cluster-name=east", hashed}, "--hub-url: must be https://host:port"},
		{"a password in an address is rejected and not repeated", []string{"--hub-url=https://me:pw@hub", "--cluster-name=east", hashed}, "--hub-url: must be https://host:port, without user"},
		{"an invalid hash", []string{"--hub-url=https://hub:6443", "--cluster-name=east", "--hub-ca-hash=abc"}, "--hub-ca-hash=abc: must be sha256:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := &Hub{}
			f := pflag.NewFlagSet("test", pflag.ContinueOnError)
			h.AddFlags(f)
			require.NoError(t, f.Parse(tc.args))
			if tc.want == "" {
				require.NoError(t, h.Validate())
				return
			}
			require.ErrorContains(t, h.Validate(), tc.want)
			require.NotContains(t, h.Validate().Error(), "pw@")
		})
	}
}

func TestHubFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(token, []byte("abc\n"), 0o600))
	require.NoError(t, os.WriteFile(ca, []byte("PEM"), 0o600))

	gotCA, gotToken, err := (&Hub{TokenFile: token, CAFile: ca}).Read()
	require.NoError(t, err)
	require.Equal(t, "PEM", string(gotCA))
	require.Equal(t, "abc", gotToken, "an editor's newline is not part of a token")

	_, gotToken, err = (&Hub{TokenFile: token + "-absent"}).Read()
	require.NoError(t, err, "a cluster that has joined needs no token")
	require.Empty(t, gotToken)
	_, _, err = (&Hub{CAFile: ca + "-absent"}).Read()
	require.ErrorContains(t, err, "read --hub-ca-file")
	_, _, err = (&Hub{TokenFile: dir}).Read()
	require.ErrorContains(t, err, "read --hub-token-file")
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	w := NewWorkers("cloneset", "statefulset")
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	w.AddFlags(f)
	require.NoError(t, w.Validate())
	require.NoError(t, f.Parse([]string{"--cloneset-workers=7"}))
	require.Equal(t, 7, *w["cloneset"])
	require.Equal(t, 3, *w["statefulset"])
	require.NoError(t, f.Parse([]string{"--cloneset-workers=0", "--statefulset-workers=101"}))
	require.EqualError(t, w.Validate(), "--cloneset-workers=0: must be 1 to 100\n--statefulset-workers=101: must be 1 to 100")
}

func TestAReplacedFlagIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, arg, want string }{
		{"by its name", "--old-size=3", "--old-size is a flag of OpenKruise's manager that does not exist here: set --new-size"},
		{"without a value", "--old-size", "--old-size is a flag of OpenKruise's manager that does not exist here: set --new-size"},
		{"as klog spells it", "--log_dir=/log", "--log_dir is a flag of OpenKruise's manager that does not exist here: leave it out"},
		{"other flags are unknown", "--older-size=3", "unknown flag: --older-size"},
		{"existing flags keep their errors", "--burst=many", `invalid argument "many" for "--burst"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := &cobra.Command{Use: "test", Long: "Test.", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
			cmd.Flags().Int("burst", 1, "")
			describe(cmd, "OpenKruise's manager", []Replaced{
				{Flags: []string{"old-size", "older"}, Instead: "set --new-size"}, {Flags: []string{"log-dir"}, Instead: "leave it out"},
			})
			require.Contains(t, cmd.Long, "  --old-size, --older\n      set --new-size\n")
			cmd.SetArgs([]string{tc.arg})
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
		})
	}
}

// TestProgramSetsUpOnlyWhatItsFlagsAllow isn't parallel: a program sets the logger of klog, which is global.
func TestProgramSetsUpOnlyWhatItsFlagsAllow(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		args []string
		want []string
		runs bool
	}{
		{
			"all invalid flags are reported, including those of other groups",
			[]string{"--namespace=A", "--cloneset-workers=0", "--cluster-name=east"},
			[]string{"--namespace=A", "--cloneset-workers=0", "--cluster-name, "},
			false,
		},
		{"an error before the start ends the program", nil, []string{"boom"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gates, err := feature.New()
			require.NoError(t, err)
			p := NewProgram("flotilla-test", gates, "cloneset")
			ran := false
			cmd := p.Command("Test", "Test a program.", func(context.Context) (ctrl.Manager, error) {
				ran = true
				return nil, boom
			}, &Hub{})
			require.Equal(t, 5*time.Minute, p.ExpectationTimeout)
			cmd.SetArgs(tc.args)
			err = cmd.ExecuteContext(t.Context())
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, tc.runs, ran)
		})
	}
}
