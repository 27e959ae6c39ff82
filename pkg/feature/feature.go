package feature

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
)

// TemplateNoDefaults leaves pod templates and claim templates as users wrote them, instead of storing them with the
// apiserver's defaults.
//
// Alpha, off: 0.1.
const TemplateNoDefaults featuregate.Feature = "TemplateNoDefaults"

// Gates is a set of gates as one flag: Name=true,Other=false. The zero value is not usable; New makes one.
type Gates struct {
	gate featuregate.MutableFeatureGate
}

var _ pflag.Value = (*Gates)(nil)

// New returns the gates at their defaults.
func New() (*Gates, error) {
	gate := featuregate.NewFeatureGate()
	err := gate.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		TemplateNoDefaults: {Default: false, PreRelease: featuregate.Alpha},
	})
	if err != nil {
		return nil, fmt.Errorf("add feature gates: %w", err)
	}
	return &Gates{gate}, nil
}

// Enabled says whether a gate of this package is on.
func (g *Gates) Enabled(f featuregate.Feature) bool { return g.gate.Enabled(f) }

// Known describes each gate in a line: its name, stage and default.
func (g *Gates) Known() []string { return g.gate.KnownFeatures() }

// AddFlags binds g to the flag --feature-gates.
func (g *Gates) AddFlags(f *pflag.FlagSet) {
	f.Var(g, "feature-gates", "Name=true or Name=false, by commas:\n"+strings.Join(g.Known(), "\n"))
}

// Set implements pflag.Value. A name that is not known is an error, and so is a value that is no bool.
func (g *Gates) Set(text string) error {
	if err := g.gate.Set(text); err != nil {
		return fmt.Errorf("%w; known are: %s", err, strings.Join(g.Known(), ", "))
	}
	return nil
}

// String implements pflag.Value.
func (g *Gates) String() string {
	if g == nil || g.gate == nil { // Package pflag asks the zero value.
		return ""
	}
	var on []string
	for f := range g.gate.GetAll() {
		if g.gate.Enabled(f) {
			on = append(on, string(f)+"=true")
		}
	}
	return strings.Join(on, ",")
}

// Type implements pflag.Value.
func (g *Gates) Type() string { return "gates" }
