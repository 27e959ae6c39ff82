package main

import "github.com/flotilla-io/flotilla/pkg/manager/option"

// replaced returns the flags of OpenKruise's manager that this one doesn't have. Its other flags have the same name and meaning here, except
// for --namespace.
func replaced() []option.Replaced {
	return []option.Replaced{
		{
			Flags:   []string{"leader-election-namespace"},
			Instead: "set --namespace: it contains the Lease and the Secrets of this manager",
		}, {
			Flags:   []string{"leader-election-id", "leader-election-resource-lock"},
			Instead: "leave them out: the lock is a Lease named " + name,
		}, {
			Flags:   []string{"sync-period"},
			Instead: "leave it out: no controller relies on a periodic resync",
		}, {
			Flags: []string{"rate-limiter-base-delay", "rate-limiter-max-delay", "rate-limiter-qps", "rate-limiter-bucket-size"},
			Instead: "leave them out: a failed reconcile is retried after 5 ms to 2 minutes, per object and without an overall " +
				"limit; --rest-config-qps limits requests",
		}, {
			Flags:   []string{"enable-pprof"},
			Instead: "set --pprof-addr, which alone enables profiling",
		}, {
			Flags:   []string{"webhook-initialize-timeout"},
			Instead: "leave it out: /readyz fails until webhooks can be called",
		}, {
			Flags:   []string{"allow-privileged"},
			Instead: "leave it out: the apiserver validates pod templates",
		}, {
			Flags:   []string{"assign-pods-by-scheduler", "assign-bcj-pods-by-scheduler"},
			Instead: "leave them out: the pods of a DaemonSet and of a BroadcastJob are always bound by the scheduler",
		}, {
			Flags:   []string{"disable-no-deepcopy"},
			Instead: "leave it out: this can't be configured",
		}, {
			Flags: []string{
				"logtostderr", "alsologtostderr", "stderrthreshold", "legacy-stderr-threshold-behavior", "log-dir", "log-file",
				"log-file-max-size", "log-flush-frequency", "log-backtrace-at", "log-json-info-buffer-size", "log-json-split-stream",
				"log-text-info-buffer-size", "log-text-split-stream", "add-dir-header", "one-output", "skip-headers", "skip-log-headers",
				"vmodule",
			},
			Instead: "leave them out: logs go to standard error, with the level of --v and the format of --logging-format",
		}, {
			Flags:   []string{"protection-log-path"},
			Instead: "leave it out: refused requests are reported in events and metrics, and refused deletions in the manager's log",
		}, {
			Flags:   []string{"crr-workers"},
			Instead: "use --containerrecreaterequest-workers",
		}, {
			Flags:   []string{"default-ttlseconds-for-always-nodeimage"},
			Instead: "leave it out: entries of NodeImages are kept for 5 to 10 minutes beyond ttlSecondsAfterFinished of their job",
		},
	}
}
