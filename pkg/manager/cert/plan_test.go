package cert

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	hour = time.Hour
	day  = 24 * hour
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func policy(names ...string) Policy {
	return Policy{Names: names, CAValidity: 100 * day, ServingValidity: 10 * day, Settle: hour}
}

// after takes steps from an empty State and returns the result.
func after(t *testing.T, p Policy, at time.Time, acts ...Act) State {
	t.Helper()
	var s State
	for _, a := range acts {
		var err error
		s, err = Take(Step{Act: a, Names: p.Names}, s, p, at)
		require.NoError(t, err)
	}
	return s
}

func TestPlan(t *testing.T) {
	t.Parallel()
	p := policy("hook.ns.svc")
	fresh := after(t, p, noon, Start)
	twoCAs := after(t, p, noon, Start, AddCA)
	rotated := after(t, p, noon, Start, AddCA, Issue)
	without := func(s State, change func(*State)) State { change(&s); return s }

	for _, tc := range []struct {
		name    string
		state   State
		since   time.Time
		policy  Policy
		now     time.Time
		act     Act
		why     string
		names   []string
		recheck time.Duration
	}{
		{
			name: "an empty Secret is filled", now: noon,
			act: Start, why: "there is no CA", names: p.Names,
		},
		{
			name: "a fresh certificate is checked again when a third of its life is left", state: fresh, now: noon,
			act: Keep, why: "nothing is due", recheck: 10 * day * 2 / 3,
		},
		{
			name: "a serving certificate is renewed when a third of its life is left", state: fresh, now: noon.Add(7 * day),
			act: Issue, why: "expires at", names: p.Names,
		},
		{
			name: "a serving certificate that expired while no replica ran is renewed", state: fresh, now: noon.Add(11 * day),
			act: Issue, why: "is not valid", names: p.Names,
		},
		{
			name:  "a missing name is added beside the old ones, so that two releases don't alternate",
			state: fresh, policy: policy("other.ns.svc", "::1"), now: noon,
			act: Issue, why: "does not name [other.ns.svc ::1]", names: []string{"hook.ns.svc", "other.ns.svc", "::1"},
		},
		{
			name: "a CA is added when less than two serving validities are left", state: fresh, now: noon.Add(80 * day),
			act: AddCA, why: "in less than two lives", names: p.Names,
		},
		{
			name: "an expired CA is replaced at once, as nothing it signed is valid", state: fresh, now: noon.Add(100 * day),
			act: Start, why: "the CA expired", names: p.Names,
		},
		{
			name:  "a lost CA key requires another CA, without a gap",
			state: without(fresh, func(s *State) { s.Key = nil }), now: noon,
			act: AddCA, why: "key of the newest CA",
		},
		{
			name: "a new CA doesn't sign while a configuration lacks it", state: twoCAs, now: noon.Add(hour),
			act: Keep, why: "waiting for the bundle to be in every configuration",
		},
		{
			name: "a new CA doesn't sign before the bundle has settled", state: twoCAs, since: noon, now: noon.Add(20 * time.Minute),
			act: Keep, why: "waiting 40m0s", recheck: 40 * time.Minute,
		},
		{
			name: "a new CA signs when the bundle has settled", state: twoCAs, since: noon, now: noon.Add(hour),
			act: Issue, why: "signed by an older CA", names: p.Names,
		},
		{
			name: "a new CA signs at once when no serving certificate is valid", state: without(twoCAs, func(s *State) { s.Serving = nil }), now: noon,
			act: Issue, why: "there is no serving certificate", names: p.Names,
		},
		{
			name: "a missing name waits, too, when its CA is not trusted yet", state: twoCAs, policy: policy("other.ns.svc"), now: noon,
			act: Keep, why: "does not name [other.ns.svc]; waiting",
		},
		{
			name: "the older CA stays while a certificate that it signed may be in use", state: rotated, since: noon, now: noon.Add(hour),
			act: Keep, why: "nothing is due", recheck: 10*day*2/3 - hour,
		},
		{
			name:  "the older CA is removed when all certificates that it signed have expired",
			state: func() State { s := after(t, p, noon, Start, AddCA); return reissued(t, s, p, noon.Add(9*day)) }(),
			now:   noon.Add(10 * day), act: DropCA, why: "has expired",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.policy.Names == nil {
				tc.policy = p
			}
			step := Plan(tc.state, tc.since, tc.policy, tc.now)
			require.Equal(t, tc.act, step.Act, step.Why)
			require.Contains(t, step.Why, tc.why)
			require.Equal(t, tc.recheck, step.Recheck)
			if tc.act == Issue || tc.act == Start || tc.names != nil {
				require.Equal(t, tc.names, step.Names)
			}
		})
	}
}

func reissued(t *testing.T, s State, p Policy, at time.Time) State {
	t.Helper()
	s, err := Take(Step{Act: Issue, Names: p.Names}, s, p, at)
	require.NoError(t, err)
	return s
}

// apiserver is an API server that calls us: the bundle in its configuration, and the previous one while it may still be in use.
type apiserver struct {
	bundle, previous []byte
	changed          time.Time
}

func (a *apiserver) bundles(now time.Time, settle time.Duration) [][]byte {
	if a.previous != nil && now.Before(a.changed.Add(settle)) {
		return [][]byte{a.bundle, a.previous}
	}
	return [][]byte{a.bundle}
}

// TestRotationLeavesNoGap simulates years of rotations. Configurations get a bundle late and use the previous one for up to the settling time;
// replicas may serve any certificate until it expires. At each moment every such certificate must verify against every bundle in use.
func TestRotationLeavesNoGap(t *testing.T) {
	t.Parallel()
	for seed := range int64(5) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			playRotation(t, rand.New(rand.NewSource(seed)))
		})
	}
}

func playRotation(t *testing.T, dice *rand.Rand) {
	t.Helper()
	p := policy("hook.ns.svc")
	s := after(t, p, noon, Start)
	apiservers := []*apiserver{{bundle: s.Bundle()}, {bundle: s.Bundle()}, {bundle: s.Bundle()}}
	served := []*tls.Certificate{s.Serving}
	count := map[Act]int{}
	var since time.Time

	for now := noon; now.Before(noon.Add(300 * day)); now = now.Add(tick(dice, s, since, apiservers, now)) {
		inForce := true
		for _, a := range apiservers {
			if string(a.bundle) == string(s.Bundle()) {
				continue
			}
			if dice.Intn(3) > 0 {
				inForce = false // Its write failed and is retried.
				continue
			}
			a.previous, a.bundle, a.changed = a.bundle, s.Bundle(), now
		}
		switch {
		case !inForce:
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		if dice.Intn(50) == 0 {
			since = time.Time{} // The replica restarted.
			continue
		}
		step := Plan(s, since, p, now)
		if step.Act != Keep {
			before := string(s.Bundle())
			var err error
			s, err = Take(step, s, p, now)
			require.NoError(t, err)
			count[step.Act]++
			served = append(served, s.Serving)
			if string(s.Bundle()) != before {
				since = time.Time{}
			}
		}
		served = slices.DeleteFunc(served, func(c *tls.Certificate) bool { return !now.Before(c.Leaf.NotAfter) })
		inUse := map[string]bool{}
		for _, a := range apiservers {
			for _, b := range a.bundles(now, p.Settle) {
				inUse[string(b)] = true
			}
		}
		for _, c := range served {
			for b := range inUse {
				require.NoError(t, verify(c.Leaf, []byte(b), "hook.ns.svc", now), "at %s", now)
			}
		}
	}
	require.Zero(t, count[Start], "a rotation must never start over")
	require.GreaterOrEqual(t, count[AddCA], 3)
	require.GreaterOrEqual(t, count[DropCA], 2)
	require.Greater(t, count[Issue], 35)
}

// tick is long while nothing happens, and short around a change.
func tick(dice *rand.Rand, s State, since time.Time, apiservers []*apiserver, now time.Time) time.Duration {
	busy := since.IsZero() || len(s.Authorities) > 1 && s.Serving.Leaf.CheckSignatureFrom(s.newest()) != nil
	for _, a := range apiservers {
		busy = busy || now.Before(a.changed.Add(2*hour))
	}
	if busy {
		return time.Duration(1+dice.Intn(30)) * time.Minute
	}
	return time.Duration(1+dice.Intn(24)) * hour
}

func verify(leaf *x509.Certificate, bundle []byte, name string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

func TestAddCAGivesTheOlderOneALastCertificate(t *testing.T) {
	t.Parallel()
	p := policy("hook.ns.svc")
	first, later := after(t, p, noon, Start), noon.Add(6*day)
	second, err := Take(Step{Act: AddCA, Names: p.Names}, first, p, later)
	require.NoError(t, err)
	require.NoError(t, second.Serving.Leaf.CheckSignatureFrom(first.newest()))
	require.Equal(t, later.Add(p.ServingValidity), second.Serving.Leaf.NotAfter, "it has its whole life ahead")

	keyless := first
	keyless.Key = nil
	second, err = Take(Step{Act: AddCA, Names: p.Names}, keyless, p, later)
	require.NoError(t, err)
	require.Equal(t, first.Serving, second.Serving, "an older CA without a key no longer signs")
}

func TestReadIsTheInverseOfData(t *testing.T) {
	t.Parallel()
	p := policy("hook.ns.svc", "127.0.0.1")
	s := after(t, p, noon, Start, AddCA, Issue)
	data, err := s.Data()
	require.NoError(t, err)
	got := Read(data)
	require.Equal(t, s.Bundle(), got.Bundle())
	require.True(t, s.Key.Equal(got.Key))
	require.Equal(t, s.Serving.Leaf.Raw, got.Serving.Leaf.Raw)
	require.Equal(t, p.Names, names(got.Serving.Leaf))
	require.Equal(t, Keep, Plan(got, noon, p, noon).Act)
}

func TestReadDropsInvalidParts(t *testing.T) {
	t.Parallel()
	p := policy("hook.ns.svc")
	one, two := after(t, p, noon, Start), after(t, p, noon, Start)
	data := func(t *testing.T, s State) map[string][]byte {
		t.Helper()
		d, err := s.Data()
		require.NoError(t, err)
		return d
	}
	for _, tc := range []struct {
		name  string
		spoil func(mine, others map[string][]byte)
		check func(*testing.T, State)
		next  Act
	}{
		{
			"no data at all", func(m, _ map[string][]byte) { clear(m) },
			func(t *testing.T, s State) { t.Helper(); require.Equal(t, State{}, s) }, Start,
		},
		{
			"a bundle that is not PEM", func(m, _ map[string][]byte) { m[keyBundle] = []byte("nonsense") },
			func(t *testing.T, s State) { t.Helper(); require.Empty(t, s.Authorities); require.Nil(t, s.Key) }, Start,
		},
		{
			"a serving certificate in the bundle", func(m, _ map[string][]byte) { m[keyBundle] = m[keyServing] },
			func(t *testing.T, s State) { t.Helper(); require.Empty(t, s.Authorities) }, Start,
		},
		{
			"the key of another CA", func(m, o map[string][]byte) { m[keyAuthority] = o[keyAuthority] },
			func(t *testing.T, s State) { t.Helper(); require.Nil(t, s.Key) }, AddCA,
		},
		{
			"the key of another serving certificate", func(m, o map[string][]byte) { m[keyServingKey] = o[keyServingKey] },
			func(t *testing.T, s State) { t.Helper(); require.Nil(t, s.Serving) }, Issue,
		},
		{
			"a serving certificate of another CA", func(m, o map[string][]byte) { m[keyServing], m[keyServingKey] = o[keyServing], o[keyServingKey] },
			func(t *testing.T, s State) { t.Helper(); require.NotNil(t, s.Serving) }, Issue,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mine := data(t, one)
			tc.spoil(mine, data(t, two))
			s := Read(mine)
			tc.check(t, s)
			require.Equal(t, tc.next, Plan(s, noon, p, noon).Act)
		})
	}
}
