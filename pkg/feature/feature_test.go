package feature

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  string
		on   bool
		want string
	}{
		{name: "a gate is at its default when nothing is said"},
		{name: "a gate is set by name", set: "TemplateNoDefaults=true", on: true},
		{name: "spaces around a name are fine", set: " TemplateNoDefaults = true ", on: true},
		{name: "a whole stage is set at once", set: "AllAlpha=true", on: true},
		{name: "a gate's own value wins over its stage's", set: "AllAlpha=true,TemplateNoDefaults=false"},
		{name: "an unknown gate is refused with the known ones", set: "ImagePullJobGate=true", want: "unrecognized feature gate: ImagePullJobGate; known are: AllAlpha"},
		{name: "a name differs by case", set: "templatenodefaults=true", want: "unrecognized feature gate"},
		{name: "a value must be there", set: "TemplateNoDefaults", want: "missing bool value"},
		{name: "a value must be a bool", set: "TemplateNoDefaults=maybe", want: "invalid value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g, err := New()
			require.NoError(t, err)
			err = g.Set(tc.set)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.on, g.Enabled(TemplateNoDefaults))
		})
	}
}

func TestStringIsWhatIsOn(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Gates{}).String())
	g, err := New()
	require.NoError(t, err)
	require.Empty(t, g.String())
	require.NoError(t, g.Set("TemplateNoDefaults=true"))
	require.Equal(t, "TemplateNoDefaults=true", g.String())
}
