package cert

import (
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"
)

// Act is one step of a rotation.
type Act string

// The steps, as in the package's documentation.
const (
	// Keep writes nothing.
	Keep Act = "Keep"
	// Start creates a CA and a serving certificate, and drops the old ones.
	Start Act = "Start"
	// AddCA appends a CA to the bundle, which signs from then on. Before that, the older CA signs one last serving certificate, so that there is a
	// whole serving validity for distributing the new CA.
	AddCA Act = "AddCA"
	// Issue creates a serving certificate, signed by the newest CA.
	Issue Act = "Issue"
	// DropCA removes all but the newest CA from the bundle.
	DropCA Act = "DropCA"
)

// Policy is the set of requirements for the certificates.
type Policy struct {
	// Names are the DNS names and IP addresses under which API servers call us.
	Names []string
	// CAValidity is how long a new CA is valid; more than three times ServingValidity.
	CAValidity time.Duration
	// ServingValidity is how long a new serving certificate is valid.
	ServingValidity time.Duration
	// Settle is how long an API server may keep using the previous bundle after a new one was written.
	Settle time.Duration
}

// Step is what to do next, and why.
type Step struct {
	Act Act
	// Names are the names in the certificate that Start, Issue or AddCA creates.
	Names []string
	// Why is a human-readable sentence.
	Why string
	// Recheck is when the plan may change just by time passing; 0 means never. It is only set with Keep: after a write the caller plans again.
	Recheck time.Duration
}

// Plan returns the next step. since is when the caller first observed the State's bundle in every configuration that calls us; zero while one of
// them has another bundle.
func Plan(s State, since time.Time, p Policy, now time.Time) Step {
	newest := s.newest()
	switch {
	case newest == nil:
		return Step{Act: Start, Names: p.Names, Why: "there is no CA"}
	case !now.Before(newest.NotAfter):
		return Step{Act: Start, Names: p.Names, Why: "the CA expired at " + stamp(newest.NotAfter)}
	case s.Key == nil:
		return Step{Act: AddCA, Names: allNames(s, p), Why: "the key of the newest CA is missing or does not match"}
	case !now.Before(renewCA(newest, p)):
		return Step{Act: AddCA, Names: allNames(s, p), Why: fmt.Sprintf(
			"the CA expires at %s, in less than two lives of a serving certificate", stamp(newest.NotAfter))}
	}
	if why := unusable(s, now); why != "" {
		// The current certificate doesn't work at all, so nothing is lost by not waiting.
		return Step{Act: Issue, Names: p.Names, Why: why}
	}
	if step, due := reissue(s, since, p, now); due {
		return step
	}
	return planRemoval(s, p, now)
}

// reissue returns the step for a serving certificate that works but should be replaced.
func reissue(s State, since time.Time, p Policy, now time.Time) (Step, bool) {
	leaf, newest := s.Serving.Leaf, s.newest()
	signedByNewest := leaf.CheckSignatureFrom(newest) == nil
	step := Step{Act: Issue, Names: p.Names}
	switch lacking := missingNames(leaf, p.Names); {
	case len(lacking) > 0:
		// Replicas of two releases may want different names. The old names stay until the next regular renewal, so that the two replicas don't
		// alternate.
		step.Names = allNames(s, p)
		step.Why = fmt.Sprintf("the serving certificate does not name %v", lacking)
	case !signedByNewest:
		step.Why = "the serving certificate is signed by an older CA"
	case !now.Before(renewServing(leaf)):
		step.Why = "the serving certificate expires at " + stamp(leaf.NotAfter)
	default:
		return Step{}, false
	}
	if signedByNewest {
		return step, true
	}
	// The newest CA signs nothing until every API server trusts it.
	switch {
	case since.IsZero():
		return Step{Act: Keep, Why: step.Why + "; waiting for the bundle to be in every configuration"}, true
	case now.Before(since.Add(p.Settle)):
		wait := since.Add(p.Settle).Sub(now)
		return Step{Act: Keep, Why: fmt.Sprintf("%s; waiting %s for the bundle to settle", step.Why, wait), Recheck: wait}, true
	}
	return step, true
}

// planRemoval returns the step for when the serving certificate stays.
func planRemoval(s State, p Policy, now time.Time) Step {
	next := earlier(renewServing(s.Serving.Leaf), renewCA(s.newest(), p))
	if len(s.Authorities) > 1 {
		// An older CA has signed nothing since the newest one was added. One serving validity later everything it signed has expired.
		at := s.newest().NotBefore.Add(backdate + p.ServingValidity)
		if !now.Before(at) {
			return Step{Act: DropCA, Why: "everything signed by an older CA has expired"}
		}
		next = earlier(next, at)
	}
	return Step{Act: Keep, Why: "nothing is due before " + stamp(next), Recheck: next.Sub(now)}
}

// unusable returns why no API server can verify the serving certificate; empty if they can.
func unusable(s State, now time.Time) string {
	if s.Serving == nil {
		return "there is no serving certificate"
	}
	roots := x509.NewCertPool()
	for _, a := range s.Authorities {
		roots.AddCert(a)
	}
	between := x509.NewCertPool()
	for _, der := range s.Serving.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := s.Serving.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return "the serving certificate is not valid: " + err.Error()
	}
	return ""
}

// missingNames returns the names in want that the certificate lacks.
func missingNames(leaf *x509.Certificate, want []string) []string {
	has := names(leaf)
	return slices.DeleteFunc(slices.Clone(want), func(n string) bool { return slices.Contains(has, n) })
}

// allNames returns the names that the serving certificate has, plus the missing ones.
func allNames(s State, p Policy) []string {
	if s.Serving == nil {
		return p.Names
	}
	return append(names(s.Serving.Leaf), missingNames(s.Serving.Leaf, p.Names)...)
}

func names(leaf *x509.Certificate) []string {
	out := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// renewServing returns the time at which a third of a serving certificate's validity is left.
func renewServing(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(backdate))
	return leaf.NotAfter.Add(-life / 3)
}

// renewCA returns when to add a CA: early enough for the last serving certificate of the newest CA to reach its end, plus the same time again
// for distributing the next CA.
func renewCA(ca *x509.Certificate, p Policy) time.Time {
	return ca.NotAfter.Add(-2 * p.ServingValidity)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// canonical formats IP addresses the way a certificate's names are parsed, so that they compare as equal.
func canonical(name string) string {
	if ip := net.ParseIP(name); ip != nil {
		return ip.String()
	}
	return name
}
