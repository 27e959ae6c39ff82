package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/testkit/golden"
)

func TestSecondsAndCountsAreOfKindsAndPackagesTheSlowestFirst(t *testing.T) {
	t.Parallel()
	tl := newTally([]string{"cloneset", "statefulset"})
	for _, file := range []struct{ stage, events string }{
		{"unit", `
{"Action":"pass","Package":"` + module + `member/workload/cloneset","Test":"TestPlan/a_case","Elapsed":1}
{"Action":"pass","Package":"` + module + `member/workload/cloneset","Test":"TestPlan","Elapsed":2}
{"Action":"pass","Package":"` + module + `member/workload/cloneset","Elapsed":2.5}
{"Action":"pass","Package":"` + module + `member/workload/statefulset/claims","Test":"TestClaims","Elapsed":16}
{"Action":"pass","Package":"` + module + `member/workload/statefulset/claims","Elapsed":16}
{"Action":"pass","Package":"` + module + `pkg/manager/cert","Test":"TestCert","Elapsed":3}
{"Action":"pass","Package":"` + module + `pkg/manager/cert","Elapsed":3}
{"Action":"pass","Package":"` + module + `pkg/manager/link","Test":"TestLink","Elapsed":0}
{"Action":"pass","Package":"` + module + `pkg/manager/link","Elapsed":0.5}`},
		{"unit", `
{"Action":"pass","Package":"` + module + `pkg/control/expect","Test":"TestExpect","Elapsed":0}
{"Action":"pass","Package":"` + module + `pkg/control/expect","Elapsed":0.25}`},
		{"e2e", `
{"Action":"output","Package":"` + module + `e2e/suite","Test":"TestBig","Output":"    big_test.go:7: make test-all runs it: 5,000 pods\n"}
{"Action":"skip","Package":"` + module + `e2e/suite","Test":"TestBig","Elapsed":0}
{"Action":"pass","Package":"` + module + `e2e/suite","Test":"TestCloneSetIsScaled","Elapsed":30}
{"Action":"pass","Package":"` + module + `e2e/suite","Test":"TestJoin","Elapsed":10}
{"Action":"pass","Package":"` + module + `e2e/suite","Elapsed":20}`},
		{"integration", `
{"Action":"start","Package":"` + module + `pkg/manager/cert"}
{"Action":"run","Package":"` + module + `pkg/manager/cert","Test":"TestCert"}
{"Action":"fail","Package":"` + module + `pkg/manager/cert","Test":"TestCert","Elapsed":3}
{"Action":"fail","Package":"` + module + `pkg/manager/cert","Elapsed":4}
{"Action":"start","Package":"` + module + `pkg/manager/cert"}
{"Action":"run","Package":"` + module + `pkg/manager/cert","Test":"TestCert"}
{"Action":"pass","Package":"` + module + `pkg/manager/cert","Test":"TestCert","Elapsed":1}
{"Action":"pass","Package":"` + module + `pkg/manager/cert","Elapsed":2}`},
		{"simulate", `
{"Action":"output","Package":"` + module + `member/workload/cloneset","Test":"TestSimulation","Output":"    test.go:50: 522 of 12432 schedules of 16 scenarios in sum\n"}
{"Action":"pass","Package":"` + module + `member/workload/cloneset","Test":"TestSimulation","Elapsed":8}
{"Action":"pass","Package":"` + module + `member/workload/cloneset","Elapsed":8}`},
	} {
		r, err := parseResults(strings.NewReader(file.events))
		require.NoError(t, err)
		tl.add(file.stage, r)
	}
	tl.others = append(tl.others, "lab-test: these sources have passed")
	var out strings.Builder
	require.NoError(t, tl.print(&out))
	golden.Equal(t, "tally", out.String())
}

func TestResultsThatAreCutOffAreAnError(t *testing.T) {
	t.Parallel()
	_, err := parseResults(strings.NewReader(`{"Action":"pa`))
	require.Error(t, err)
}
