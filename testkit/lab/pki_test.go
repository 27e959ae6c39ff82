package lab

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

func testTime() time.Time { return time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) }

func parseCert(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(data)
	require.NotNil(t, block)
	require.Empty(t, rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}

func TestIssuedCertificatesServeTheirPurposeOnly(t *testing.T) {
	t.Parallel()
	ca, err := newAuthority("east-ca", testTime())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca.cert))

	server, err := ca.issue(subject{user: "kube-apiserver", hosts: []string{"127.0.0.1", "localhost"}})
	require.NoError(t, err)
	client, err := ca.issue(subject{user: "jane", groups: []string{"dev", "ops"}})
	require.NoError(t, err)
	for _, p := range []pair{server, client} {
		_, err := tls.X509KeyPair(p.cert, p.key)
		require.NoError(t, err, "key and certificate belong together")
	}
	subj := parseCert(t, client.cert).Subject
	require.Equal(t, "jane", subj.CommonName)
	require.Equal(t, []string{"dev", "ops"}, subj.Organization)

	for _, tc := range []struct {
		name  string
		cert  []byte
		host  string
		usage x509.ExtKeyUsage
		at    time.Time
		ok    bool
	}{
		{name: "a server under its address", cert: server.cert, host: "127.0.0.1", usage: x509.ExtKeyUsageServerAuth, at: testTime(), ok: true},
		{name: "a server under its name", cert: server.cert, host: "localhost", usage: x509.ExtKeyUsageServerAuth, at: testTime(), ok: true},
		{name: "a server under another name", cert: server.cert, host: "example.com", usage: x509.ExtKeyUsageServerAuth, at: testTime()},
		{name: "a server as a client", cert: server.cert, usage: x509.ExtKeyUsageClientAuth, at: testTime()},
		{name: "a client", cert: client.cert, usage: x509.ExtKeyUsageClientAuth, at: testTime(), ok: true},
		{name: "a client as a server", cert: client.cert, usage: x509.ExtKeyUsageServerAuth, at: testTime()},
		{name: "a client half an hour before, by a slow clock", cert: client.cert, usage: x509.ExtKeyUsageClientAuth, at: testTime().Add(-30 * time.Minute), ok: true},
		{name: "a client after nine years", cert: client.cert, usage: x509.ExtKeyUsageClientAuth, at: testTime().AddDate(9, 0, 0), ok: true},
		{name: "a client after eleven years", cert: client.cert, usage: x509.ExtKeyUsageClientAuth, at: testTime().AddDate(11, 0, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseCert(t, tc.cert).Verify(x509.VerifyOptions{
				Roots: roots, DNSName: tc.host, CurrentTime: tc.at, KeyUsages: []x509.ExtKeyUsage{tc.usage},
			})
			require.Equal(t, tc.ok, err == nil, "error: %v", err)
		})
	}
}

func TestWritePKIGivesEachProgramItsOwnUser(t *testing.T) {
	t.Parallel()
	c := newCluster(t.TempDir(), Config{Name: "east"}, Bin{})
	c.usePorts(map[string]int{portAPIServer: 20001})
	require.NoError(t, writePKI(c, testTime()))

	for file, user := range map[string]string{
		adminKubeconfig:             "lab:admin",
		simulatorKubeconfig:         "lab:kwok",
		controllerManagerKubeconfig: "system:kube-controller-manager",
		schedulerKubeconfig:         "system:kube-scheduler",
	} {
		cfg, err := clientcmd.BuildConfigFromFlags("", c.path(file))
		require.NoError(t, err)
		require.Equal(t, "https://127.0.0.1:20001", cfg.Host)
		require.Equal(t, user, parseCert(t, cfg.CertData).Subject.CommonName)
		require.Equal(t, "east-ca", parseCert(t, cfg.CAData).Subject.CommonName)
	}
}
