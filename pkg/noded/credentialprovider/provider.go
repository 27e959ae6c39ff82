// Package credentialprovider gets logins for image registries from the credential provider plugins of a node, as its kubelet does: from programs
// that read a CredentialProviderRequest and print a CredentialProviderResponse. Source of configuration and protocol: kubelet.
package credentialprovider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
)

const (
	configGroup = "kubelet.config.k8s.io/"
	pluginGroup = "credentialprovider.kubelet.k8s.io/"
	// timeout is how long a plugin may run.
	timeout = time.Minute
	// outputDelay is how long the output of a plugin is read after it has ended: processes that it started may still hold it open.
	outputDelay = time.Second
	// maxAnswer is the maximum length of an answer, in bytes.
	maxAnswer = 1 << 20
)

// supported reports whether an apiVersion belongs to a group. The versions of configuration and protocol don't differ in the fields used here.
func supported(apiVersion, group string) bool {
	version, found := strings.CutPrefix(apiVersion, group)
	return found && (version == "v1" || version == "v1beta1" || version == "v1alpha1")
}

// Providers are the plugins of a node. They may be used concurrently.
type Providers struct {
	all []*provider
	// Skipped lists the plugins that are not used, and why.
	Skipped []string
}

// provider is one plugin.
type provider struct {
	configv1.CredentialProvider

	path  string
	clock clock.PassiveClock

	// mu lets only one request at a time run the plugin, so that the next one finds the answer in the cache.
	mu    sync.Mutex
	cache map[string]answer
}

// answer is a plugin's answer, valid until a time.
type answer struct {
	logins []pullsecret.Login
	until  time.Time
}

// Load reads a kubelet's CredentialProviderConfig, whose plugins are in a directory. If the file or the directory doesn't exist, there are no
// plugins. Any other problem is an error that names the field.
func Load(file, dir string, c clock.PassiveClock) (*Providers, error) {
	for _, path := range []string{file, dir} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return &Providers{}, nil
		}
	}
	data, err := os.ReadFile(file) //nolint:gosec // It is named by a flag.
	if err != nil {
		return nil, fmt.Errorf("read the credential providers: %w", err)
	}
	config := configv1.CredentialProviderConfig{}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, fmt.Errorf("%s is not a CredentialProviderConfig: %w", file, err)
	}
	p := &Providers{}
	if err := p.add(&config, dir, c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func (p *Providers) add(config *configv1.CredentialProviderConfig, dir string, c clock.PassiveClock) error {
	if config.Kind != "CredentialProviderConfig" || !supported(config.APIVersion, configGroup) {
		return fmt.Errorf("apiVersion %q, kind %q: must be %sv1, CredentialProviderConfig", config.APIVersion, config.Kind, configGroup)
	}
	names := map[string]bool{}
	for i := range config.Providers {
		spec := &config.Providers[i]
		at := fmt.Sprintf("providers[%d]", i)
		if err := validateSpec(spec); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		if names[spec.Name] {
			return fmt.Errorf("%s.name: %q is already the name of another provider", at, spec.Name)
		}
		names[spec.Name] = true
		if t := spec.TokenAttributes; t != nil && t.RequireServiceAccount != nil && *t.RequireServiceAccount {
			p.Skipped = append(p.Skipped, spec.Name+": it requires the token of a pod's ServiceAccount, but images are not pulled for a pod")
			continue
		}
		path := filepath.Join(dir, spec.Name)
		if _, err := exec.LookPath(path); err != nil {
			return fmt.Errorf("%s.name: no such program: %w", at, err)
		}
		p.all = append(p.all, &provider{CredentialProvider: *spec, path: path, clock: c, cache: map[string]answer{}})
	}
	return nil
}

// validateSpec returns what is wrong with the configuration of a plugin. The message begins with the field.
func validateSpec(spec *configv1.CredentialProvider) error {
	switch {
	case spec.Name == "" || spec.Name != filepath.Base(spec.Name) || spec.Name == "." || spec.Name == "..":
		return fmt.Errorf("name: %q is not the name of a program in the plugin directory", spec.Name)
	case len(spec.MatchImages) == 0:
		return errors.New("matchImages: must name the images of the plugin")
	case spec.DefaultCacheDuration == nil || spec.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration: must say how long an answer is cached, or 0s")
	case !supported(spec.APIVersion, pluginGroup):
		return fmt.Errorf("apiVersion: %q is not supported: use %sv1", spec.APIVersion, pluginGroup)
	}
	return nil
}

// Logins returns the plugins' logins for an image, which is given without tag and digest: longest path first. The error joins the errors of
// plugins that failed, and contains none of their output.
func (p *Providers) Logins(ctx context.Context, image string) ([]pullsecret.Login, error) {
	if p == nil {
		return nil, nil
	}
	var all []pullsecret.Login
	var failed error
	for _, one := range p.all {
		if !one.matches(image) {
			continue
		}
		logins, err := one.logins(ctx, image)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("credential provider %s: %w", one.Name, err))
		}
		all = append(all, logins...)
	}
	return pullsecret.Matching(image, all), failed
}

func (p *provider) matches(image string) bool {
	return slices.ContainsFunc(p.MatchImages, func(pattern string) bool {
		return len(pullsecret.Matching(image, []pullsecret.Login{{Registry: pattern}})) > 0
	})
}

// logins returns the plugin's answer for an image, from the cache if it is recent enough.
func (p *provider) logins(ctx context.Context, image string) ([]pullsecret.Login, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := pullsecret.FullName(image)
	registry, _, _ := strings.Cut(full, "/")
	keys := map[pluginv1.PluginCacheKeyType]string{
		pluginv1.ImagePluginCacheKeyType: full, pluginv1.RegistryPluginCacheKeyType: registry, pluginv1.GlobalPluginCacheKeyType: "",
	}
	now := p.clock.Now()
	maps.DeleteFunc(p.cache, func(_ string, a answer) bool { return !now.Before(a.until) })
	for _, key := range []string{full, registry, ""} { // The most specific answer comes first.
		if cached, known := p.cache[key]; known {
			return cached.logins, nil
		}
	}
	response, err := p.exec(ctx, full)
	if err != nil {
		return nil, err
	}
	key, known := keys[response.CacheKeyType]
	if !known {
		return nil, fmt.Errorf("cacheKeyType of its answer: %q is not Image, Registry or Global", response.CacheKeyType)
	}
	fresh := answer{until: now.Add(p.DefaultCacheDuration.Duration)}
	if d := response.CacheDuration; d != nil {
		fresh.until = now.Add(d.Duration)
	}
	for at, auth := range response.Auth {
		fresh.logins = append(fresh.logins, pullsecret.Login{Registry: at, Username: auth.Username, Password: auth.Password})
	}
	p.cache[key] = fresh
	return fresh.logins, nil
}

// answerBuffer is a plugin's answer, up to maxAnswer bytes.
type answerBuffer struct {
	text []byte
	err  error
}

// Write fails when the answer is too long, which ends the plugin at its next write.
func (b *answerBuffer) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > maxAnswer {
		b.err = fmt.Errorf("its answer has more than %d bytes", maxAnswer)
		return 0, b.err
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// exec runs the plugin.
func (p *provider) exec(ctx context.Context, image string) (*pluginv1.CredentialProviderResponse, error) {
	request := &pluginv1.CredentialProviderRequest{Image: image}
	request.APIVersion, request.Kind = p.APIVersion, "CredentialProviderRequest"
	in, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("marshal the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, p.Args...) //nolint:gosec // That is what the node's administrator has configured.
	cmd.Stdin, cmd.WaitDelay, cmd.Env = bytes.NewReader(in), outputDelay, os.Environ()
	for _, e := range p.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	var out answerBuffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, cmp.Or(ctx.Err(), out.err, err)
	}
	said := &pluginv1.CredentialProviderResponse{}
	if json.Unmarshal(out.text, said) != nil { // The error could quote a password.
		return nil, errors.New("its answer is not valid JSON")
	}
	if said.Kind != "CredentialProviderResponse" || said.APIVersion != p.APIVersion {
		return nil, fmt.Errorf("its answer has apiVersion %q, kind %q: must be %s, CredentialProviderResponse", said.APIVersion, said.Kind, p.APIVersion)
	}
	return said, nil
}
