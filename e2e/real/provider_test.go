//go:build e2e

package real

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// plugin is the credential provider plugin of all nodes, which are on this machine: its answer is a file.
type plugin struct{ dir string }

// newPlugin builds the plugin, which has no logins yet.
func newPlugin(ctx context.Context) (*plugin, error) {
	root, err := lab.Repository()
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	p := &plugin{dir: filepath.Join(root, "bin", "e2e-provider")}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(p.bin(), "provider"), "./e2e/provider")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the credential provider: %w: %s", err, out)
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": []any{map[string]any{
			"name": "provider", "apiVersion": pluginVersion, "matchImages": []string{lab.RegistryAddress}, "defaultCacheDuration": "0s",
		}},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configure the credential provider: %w", err)
	}
	if err := os.WriteFile(p.config(), data, 0o600); err != nil {
		return nil, fmt.Errorf("configure the credential provider: %w", err)
	}
	return p, p.setAnswer("")
}

const pluginVersion = "credentialprovider.kubelet.k8s.io/v1"

func (p *plugin) bin() string { return filepath.Join(p.dir, "plugins") }

func (p *plugin) config() string { return filepath.Join(p.dir, "config.json") }

// setAnswer makes the plugin answer with a password for the lab's registry. "" means that it has no answer for it.
func (p *plugin) setAnswer(password string) error {
	auth := map[string]any{}
	if password != "" {
		auth[lab.RegistryAddress] = map[string]string{"username": "lab", "password": password}
	}
	data, err := json.Marshal(map[string]any{"apiVersion": pluginVersion, "kind": "CredentialProviderResponse", "cacheKeyType": "Image", "auth": auth})
	if err != nil {
		return fmt.Errorf("answer of the credential provider: %w", err)
	}
	// It is renamed into place, because a daemon may read it at the same time.
	next := filepath.Join(p.dir, "answer.json")
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("answer of the credential provider: %w", err)
	}
	return os.Rename(next, filepath.Join(p.bin(), "answer.json"))
}
