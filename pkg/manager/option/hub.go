package option

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Hub is how a member connects to its hub in mode Pull. The zero value is a cluster without a hub.
type Hub struct {
	// URL is the hub's API server; empty means no hub.
	URL string
	// Cluster is this cluster's name on the hub.
	Cluster string
	// CAFile is a PEM file with the hub's CA; CAHash is the hash of its public key. One of them is required.
	CAFile, CAHash string
	// TokenFile contains the token for the first join. It need not exist.
	TokenFile string
	// Namespaces limits where the hub may place objects.
	Namespaces link.NamespaceLimits
	// Kinds are the resources that the hub may place in addition to those that every hub may.
	Kinds []string
}

// NewHub returns the defaults: no hub, and no placement into the namespaces of Kubernetes itself.
func NewHub() *Hub {
	return &Hub{Namespaces: link.NamespaceLimits{Denied: []string{"kube-system", "kube-public", "kube-node-lease"}}}
}

// AddFlags binds h to flags.
func (h *Hub) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&h.URL, "hub-url", h.URL, "https://host:port of a hub's apiserver that this cluster joins by pull. "+
		"Empty for a standalone cluster, or one that the hub reaches by push.")
	f.StringVar(&h.Cluster, "cluster-name", h.Cluster, "Name of this cluster's MemberCluster on the hub.")
	f.StringVar(&h.CAFile, "hub-ca-file", h.CAFile, "PEM file with the hub's certificate authority.")
	f.StringVar(&h.CAHash, "hub-ca-hash", h.CAHash, "sha256:<64 hex digits> of the public key of the hub's certificate authority. "+
		"Without --hub-ca-file, the authority is fetched from the hub and must have this hash.")
	f.StringVar(&h.TokenFile, "hub-token-file", h.TokenFile, "File with the token that joins this cluster once, as printed by "+
		"\"kubectl kruise cluster token\". It may be absent once the cluster has joined.")
	f.StringSliceVar(&h.Namespaces.Allowed, "hub-allowed-namespaces", h.Namespaces.Allowed, "Namespaces in which the hub may place "+
		"objects. Empty means all that are not denied.")
	f.StringSliceVar(&h.Namespaces.Denied, "hub-denied-namespaces", h.Namespaces.Denied, "Namespaces in which the hub may place "+
		"nothing, in addition to this program's own namespace.")
	f.StringSliceVar(&h.Kinds, "hub-kinds", h.Kinds, "Additional resources that the hub may place, such as configmaps or "+
		"gameserversets.game.kruise.io: those that ServiceAccount flotilla-agent may write.")
}

// hash is the form of --hub-ca-hash.
const hash = `^sha256:[0-9a-fA-F]{64}$`

// Validate returns all invalid values.
func (h *Hub) Validate() error {
	if h.URL == "" {
		if h.Cluster != "" || h.CAFile != "" || h.CAHash != "" || h.TokenFile != "" || len(h.Namespaces.Allowed) > 0 || len(h.Kinds) > 0 {
			return errors.New("--cluster-name, --hub-ca-file, --hub-ca-hash, --hub-token-file, --hub-allowed-namespaces " +
				"and --hub-kinds require --hub-url, which is not set")
		}
		return nil
	}
	var errs []error
	if !link.PlainURL(h.URL) {
		// The address isn't included: it may contain a password.
		errs = append(errs, errors.New("--hub-url: must be https://host:port, without user, query or fragment"))
	}
	if len(validation.IsDNS1123Label(h.Cluster)) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-name=%s: must be the name of this cluster's MemberCluster on the hub", h.Cluster))
	}
	for flag, namespaces := range map[string][]string{
		"--hub-allowed-namespaces": h.Namespaces.Allowed, "--hub-denied-namespaces": h.Namespaces.Denied,
	} {
		for _, name := range namespaces {
			if len(validation.IsDNS1123Label(name)) > 0 {
				errs = append(errs, fmt.Errorf("%s=%s: must be names of namespaces", flag, name))
			}
		}
	}
	if _, err := link.ParseResources(h.Kinds); err != nil {
		errs = append(errs, fmt.Errorf("--hub-kinds: %w", err))
	}
	if h.CAFile == "" && h.CAHash == "" {
		errs = append(errs, errors.New("--hub-url: set --hub-ca-file or --hub-ca-hash, so that this cluster joins no other hub"))
	}
	if ok, err := regexp.MatchString(hash, h.CAHash); h.CAHash != "" && (err != nil || !ok) {
		errs = append(errs, fmt.Errorf("--hub-ca-hash=%s: must be sha256: and 64 hex digits", h.CAHash))
	}
	return errors.Join(errs...)
}

// Read returns the contents of the files. Without a token file the token is empty.
func (h *Hub) Read() (ca []byte, token string, err error) {
	if h.CAFile != "" {
		if ca, err = os.ReadFile(h.CAFile); err != nil {
			return nil, "", fmt.Errorf("read --hub-ca-file: %w", err)
		}
	}
	if h.TokenFile != "" {
		text, err := os.ReadFile(h.TokenFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("read --hub-token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	return ca, token, nil
}
