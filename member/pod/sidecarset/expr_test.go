package sidecarset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, variable, value, want string
	}{
		{"a variable", "cpu", "cpu", "250m", "250m"},
		{"a fraction of the variable", "cpu*0.5", "cpu", "250m", "125m"},
		{"a percentage of the variable", "max(cpu*50%, 50m)", "cpu", "250m", "125m"},
		{"the maximum", "max(cpu*50%, 50m)", "cpu", "10m", "50m"},
		{"the minimum of three", "min(cpu, 2, 1500m)", "cpu", "4", "1500m"},
		{"a number is cores", "1", "cpu", "0", "1"},
		{"products come before sums", "1 + 2 * 3", "cpu", "0", "7"},
		{"parentheses come first", "(1 + 2) * 3", "cpu", "0", "9"},
		{"subtraction is left-associative", "8 - 4 - 2", "cpu", "0", "2"},
		{"division is left-associative", "8 / 4 / 2", "cpu", "0", "1"},
		{"a sign", "-(-cpu)", "cpu", "2", "2"},
		{"cpu is rounded up to thousandths", "cpu/3", "cpu", "100m", "34m"},
		{"an exact result is not rounded", "cpu/3*3", "cpu", "100m", "100m"},
		{"memory", "memory*0.5 + 100Mi", "memory", "1Gi", "612Mi"},
		{"a number is bytes", "1024", "memory", "0", "1Ki"},
		{"memory is rounded up to bytes", "memory/3", "memory", "10", "4"},
		{"an exponent", "1e3", "memory", "0", "1k"},
		{"nested functions", "max(min(cpu, 1), min(cpu*2, 500m))", "cpu", "250m", "500m"},
		{"a decimal point without digits before it", ".5*cpu", "cpu", "1", "500m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := parseExpression(tc.text, tc.variable)
			require.NoError(t, err)
			got, err := evaluate(e, resource.MustParse(tc.value), tc.variable == "cpu")
			require.NoError(t, err)
			require.Zero(t, got.Cmp(resource.MustParse(tc.want)), got.String())
		})
	}
}

func TestExpressionsThatCantBeParsed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"an empty expression", "", `expected a number, a quantity, cpu, max, min or "(" at the end`},
		{"another variable", "memory", `expected a number, a quantity, cpu, max, min or "(" instead of "memory"`},
		{"no right side", "cpu *", "at the end"},
		{"two values", "cpu 1", `expected an operator instead of "1"`},
		{"an open parenthesis", "(cpu", `expected ")" at the end`},
		{"a function without parentheses", "max cpu", `expected "(" after max instead of "cpu"`},
		{"a function without an end", "max(cpu, 1", `expected "," or ")" at the end`},
		{"an invalid quantity", "3Mx", `"3Mx" is neither a number nor a quantity`},
		{"a quantity in percent", "3Mi%", `"3Mi%" is neither a number nor a quantity`},
		{"another character", "cpu ^ 2", `expected an operator instead of "^"`},
		{"an expression that is too long", strings.Repeat("1+", 300) + "1", "at most 512 characters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseExpression(tc.text, "cpu")
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestExpressionsWithoutAValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"a division by 0", "1/cpu", "it divides by 0"},
		{"a nested division by 0", "max(1, -(1/cpu))", "it divides by 0"},
		{"a negative value", "cpu - 1", "it is negative: -1.000"},
		{"a value that is too large", "1000000E * 1000000E", "it is too large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := parseExpression(tc.text, "cpu")
			require.NoError(t, err)
			_, err = evaluate(e, resource.MustParse("0"), true)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func FuzzParseExpression(f *testing.F) {
	for _, seed := range []string{"max(cpu*50%, 50m)", "(1+2)*3/cpu", "-1e3-.5Gi", "min(1,2", "1..2", "%", "1e999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseExpression(text, "cpu")
		if err != nil {
			return
		}
		if q, err := evaluate(e, resource.MustParse("250m"), true); err == nil {
			require.GreaterOrEqual(t, q.Sign(), 0)
		}
	})
}
