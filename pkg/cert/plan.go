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

// The steps, as the package's documentation draws them.
const (
	// Keep writes nothing.
	Keep Act = "Keep"
	// Start makes a CA and a serving certificate, and forgets what was there.
	Start Act = "Start"
	// AddCA appends a CA to the bundle, which signs from then on. The older one signs a last serving certificate before,
	// so that there is a whole serving life to spread the new one in.
	AddCA Act = "AddCA"
	// Issue makes a serving certificate, signed by the newest CA.
	Issue Act = "Issue"
	// DropCA leaves only the newest CA in the bundle.
	DropCA Act = "DropCA"
)

// Policy says what the certificates are to be.
type Policy struct {
	// Names are the DNS names and IP addresses that apiservers call us by.
	Names []string
	// CAValidity is how long a new CA is valid; more than three times ServingValidity.
	CAValidity time.Duration
	// ServingValidity is how long a new serving certificate is valid.
	ServingValidity time.Duration
	// Settle is how long after a bundle was written an apiserver may still use the one before.
	Settle time.Duration
}

// Step is what to do next, and why.
type Step struct {
	Act Act
	// Names are those of the certificate that Start, Issue or AddCA makes.
	Names []string
	// Why is a sentence for people.
	Why string
	// Recheck is after how long time alone may change the answer; 0 for never. It is set with Keep only: after a write
	// one plans again.
	Recheck time.Duration
}

// Plan returns the next step. Since is when the caller first saw the State's bundle in every configuration that calls
// us, and zero while one of them carries another.
func Plan(s State, since time.Time, p Policy, now time.Time) Step {
	newest := s.newest()
	switch {
	case newest == nil:
		return Step{Act: Start, Names: p.Names, Why: "there is no CA"}
	case !now.Before(newest.NotAfter):
		return Step{Act: Start, Names: p.Names, Why: "the CA expired at " + stamp(newest.NotAfter)}
	case s.Key == nil:
		return Step{Act: AddCA, Names: both(s, p), Why: "the key of the newest CA is absent or another one's"}
	case !now.Before(renewCA(newest, p)):
		return Step{Act: AddCA, Names: both(s, p), Why: fmt.Sprintf(
			"the CA expires at %s, in less than two lives of a serving certificate", stamp(newest.NotAfter))}
	}
	if why := unusable(s, now); why != "" {
		// Nobody can be called with what is there, so there is nothing to lose by not waiting.
		return Step{Act: Issue, Names: p.Names, Why: why}
	}
	if step, due := reissue(s, since, p, now); due {
		return step
	}
	return drop(s, p, now)
}

// reissue answers for a serving certificate that works but is to be replaced.
func reissue(s State, since time.Time, p Policy, now time.Time) (Step, bool) {
	leaf, newest := s.Serving.Leaf, s.newest()
	signedByNewest := leaf.CheckSignatureFrom(newest) == nil
	step := Step{Act: Issue, Names: p.Names}
	switch lacking := missing(leaf, p.Names); {
	case len(lacking) > 0:
		// Replicas of two releases may want different names. The old ones stay until the next regular renewal, so
		// that the two don't take turns for ever.
		step.Names = both(s, p)
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
	// The newest CA signs nothing before every apiserver trusts it.
	switch {
	case since.IsZero():
		return Step{Act: Keep, Why: step.Why + "; waiting for the bundle to be in every configuration"}, true
	case now.Before(since.Add(p.Settle)):
		wait := since.Add(p.Settle).Sub(now)
		return Step{Act: Keep, Why: fmt.Sprintf("%s; waiting %s for the bundle to settle", step.Why, wait), Recheck: wait}, true
	}
	return step, true
}

// drop answers for a serving certificate that stays.
func drop(s State, p Policy, now time.Time) Step {
	next := earlier(renewServing(s.Serving.Leaf), renewCA(s.newest(), p))
	if len(s.Authorities) > 1 {
		// An older CA has signed nothing since the newest one came. One serving life later all of it has expired.
		at := s.newest().NotBefore.Add(backdate + p.ServingValidity)
		if !now.Before(at) {
			return Step{Act: DropCA, Why: "whatever an older CA signed has expired"}
		}
		next = earlier(next, at)
	}
	return Step{Act: Keep, Why: "nothing is due before " + stamp(next), Recheck: next.Sub(now)}
}

// unusable says why no apiserver can verify the serving certificate; empty when they can.
func unusable(s State, now time.Time) string {
	if s.Serving == nil {
		return "there is no serving certificate"
	}
	roots := x509.NewCertPool()
	for _, a := range s.Authorities {
		roots.AddCert(a)
	}
	_, err := s.Serving.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return "the serving certificate is not valid: " + err.Error()
	}
	return ""
}

// missing returns those of want that the certificate does not carry.
func missing(leaf *x509.Certificate, want []string) []string {
	has := names(leaf)
	return slices.DeleteFunc(slices.Clone(want), func(n string) bool { return slices.Contains(has, n) })
}

// both are the names that the serving certificate carries, and those that are lacking.
func both(s State, p Policy) []string {
	if s.Serving == nil {
		return p.Names
	}
	return append(names(s.Serving.Leaf), missing(s.Serving.Leaf, p.Names)...)
}

func names(leaf *x509.Certificate) []string {
	out := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// renewServing is when a third of the life of a serving certificate is left.
func renewServing(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore.Add(backdate))
	return leaf.NotAfter.Add(-life / 3)
}

// renewCA leaves time for the newest CA's last serving certificate to live to its end, and as much again to spread the
// next CA.
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

// canonical writes IP addresses as a certificate's names are read, so that the two compare.
func canonical(name string) string {
	if ip := net.ParseIP(name); ip != nil {
		return ip.String()
	}
	return name
}
