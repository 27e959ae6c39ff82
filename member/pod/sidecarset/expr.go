package sidecarset

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The expression language is OpenKruise's: numbers, quantities, percentages, one variable, + - * / ( ), max and min. No expression library
// accepts quantities such as 100m as literals, so expressions are parsed here. They are evaluated exactly, with fractions.

// maxExpression is the maximum length of an expression in bytes. It bounds the cost of evaluation.
const maxExpression = 512

// expression computes a value from the value of its variable.
type expression func(variable *big.Rat) (*big.Rat, error)

var errZero = errors.New("it divides by 0")

// parseExpression parses an expression with one variable.
func parseExpression(text, variable string) (expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("must have at most %d characters", maxExpression)
	}
	p := &parser{rest: text, variable: variable}
	p.next()
	e, err := p.sum()
	if err == nil && p.token != "" {
		err = p.unexpected("an operator")
	}
	return e, err
}

// evaluate returns the value of an expression as a quantity, rounded up: CPU to thousandths of a core, other resources to whole bytes.
func evaluate(e expression, variable resource.Quantity, cpu bool) (resource.Quantity, error) {
	v, err := e(ratOf(variable))
	if err != nil {
		return resource.Quantity{}, err
	}
	if v.Sign() < 0 {
		return resource.Quantity{}, fmt.Errorf("it is negative: %s", v.FloatString(3))
	}
	format, scale := resource.BinarySI, resource.Scale(0)
	if cpu {
		format, scale = resource.DecimalSI, resource.Milli
		v = new(big.Rat).Mul(v, big.NewRat(1000, 1))
	}
	whole, rest := new(big.Int).QuoRem(v.Num(), v.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return resource.Quantity{}, fmt.Errorf("it is too large: %s", v.FloatString(0))
	}
	out := resource.NewScaledQuantity(whole.Int64(), scale)
	out.Format = format
	return *out, nil
}

// sampleAmounts returns amounts of a resource, from the smallest to more than a node has, each twice the previous one. An expression that
// yields nothing for any of them is useless.
func sampleAmounts(cpu bool) []resource.Quantity {
	format, scale, n := resource.BinarySI, resource.Scale(0), 48
	if cpu {
		format, scale, n = resource.DecimalSI, resource.Milli, 21
	}
	out := make([]resource.Quantity, 0, n)
	for i := range n {
		q := resource.NewScaledQuantity(1<<i, scale)
		q.Format = format
		out = append(out, *q)
	}
	return out
}

// tryExpression evaluates an expression with the samples. never is why it has no value for any of them. atZero is why it has no value for
// containers without a request.
func tryExpression(e expression, cpu bool) (never, atZero error) {
	for _, q := range sampleAmounts(cpu) {
		_, err := evaluate(e, q, cpu)
		if err == nil {
			_, atZero = evaluate(e, resource.Quantity{}, cpu)
			return nil, atZero
		}
		if never == nil {
			never = fmt.Errorf("no amount yields a value; with %s: %w", q.String(), err)
		}
	}
	return never, nil
}

// ratOf returns a quantity as a fraction.
func ratOf(q resource.Quantity) *big.Rat {
	r, ok := new(big.Rat).SetString(q.AsDec().String())
	if !ok {
		return new(big.Rat)
	}
	return r
}

// parser parses by recursive descent.
type parser struct {
	rest, variable string
	// token is the next token, or "" at the end.
	token string
}

// tokens returns the regular expression that matches the next token: a number with its suffix, a name, or any other character. Exponents
// have at most two digits, because longer ones would be too expensive to evaluate.
func tokens() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[0-9.]+(?:[eE][+-]?[0-9]{1,2})?[a-zA-Z%]*|[a-zA-Z_]+|.)`)
}

func (p *parser) next() {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	p.token = tokens().FindString(p.rest)
	p.rest = p.rest[len(p.token):]
}

func (p *parser) take(token string) bool {
	if p.token != token {
		return false
	}
	p.next()
	return true
}

func (p *parser) unexpected(want string) error {
	if p.token == "" {
		return fmt.Errorf("expected %s at the end", want)
	}
	return fmt.Errorf("expected %s instead of %q", want, p.token)
}

func (p *parser) sum() (expression, error) {
	left, err := p.product()
	for err == nil && (p.token == "+" || p.token == "-") {
		op := (*big.Rat).Add
		if p.token == "-" {
			op = (*big.Rat).Sub
		}
		p.next()
		var right expression
		if right, err = p.product(); err == nil {
			left = join(left, right, func(a, b *big.Rat) (*big.Rat, error) { return op(new(big.Rat), a, b), nil })
		}
	}
	return left, err
}

func (p *parser) product() (expression, error) {
	left, err := p.signed()
	for err == nil && (p.token == "*" || p.token == "/") {
		divides := p.token == "/"
		p.next()
		var right expression
		if right, err = p.signed(); err != nil {
			break
		}
		left = join(left, right, func(a, b *big.Rat) (*big.Rat, error) {
			switch {
			case !divides:
				return new(big.Rat).Mul(a, b), nil
			case b.Sign() == 0:
				return nil, errZero
			}
			return new(big.Rat).Quo(a, b), nil
		})
	}
	return left, err
}

func (p *parser) signed() (expression, error) {
	if p.take("+") {
		return p.signed()
	}
	if !p.take("-") {
		return p.value()
	}
	e, err := p.signed()
	if err != nil {
		return nil, err
	}
	return func(v *big.Rat) (*big.Rat, error) {
		r, err := e(v)
		if err != nil {
			return nil, err
		}
		return new(big.Rat).Neg(r), nil
	}, nil
}

func (p *parser) value() (expression, error) {
	switch token := p.token; {
	case p.take("("):
		e, err := p.sum()
		if err == nil && !p.take(")") {
			err = p.unexpected(`")"`)
		}
		return e, err
	case p.take("max"):
		return p.extreme(token, 1)
	case p.take("min"):
		return p.extreme(token, -1)
	case token == p.variable && p.take(token):
		return func(v *big.Rat) (*big.Rat, error) { return v, nil }, nil
	case token != "" && strings.Contains("0123456789.", token[:1]):
		n, err := number(token)
		if err != nil {
			return nil, err
		}
		p.next()
		return func(*big.Rat) (*big.Rat, error) { return n, nil }, nil
	}
	return nil, p.unexpected(fmt.Sprintf("a number, a quantity, %s, max, min or %q", p.variable, "("))
}

// extreme parses the arguments of max, with sign 1, or of min, with sign -1.
func (p *parser) extreme(name string, sign int) (expression, error) {
	if !p.take("(") {
		return nil, p.unexpected(`"(" after ` + name)
	}
	e, err := p.sum()
	for err == nil && p.take(",") {
		var other expression
		if other, err = p.sum(); err == nil {
			e = join(e, other, func(a, b *big.Rat) (*big.Rat, error) {
				if b.Cmp(a) == sign {
					return b, nil
				}
				return a, nil
			})
		}
	}
	if err == nil && !p.take(")") {
		err = p.unexpected(`"," or ")"`)
	}
	return e, err
}

// join returns an expression that evaluates both sides, then applies op.
func join(left, right expression, op func(a, b *big.Rat) (*big.Rat, error)) expression {
	return func(v *big.Rat) (*big.Rat, error) {
		a, err := left(v)
		if err != nil {
			return nil, err
		}
		b, err := right(v)
		if err != nil {
			return nil, err
		}
		return op(a, b)
	}
}

// number parses a number, a percentage or a quantity.
func number(token string) (*big.Rat, error) {
	text, percent := strings.CutSuffix(token, "%")
	q, err := resource.ParseQuantity(text)
	if err != nil || percent && strings.ContainsAny(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return nil, fmt.Errorf("%q is neither a number nor a quantity", token)
	}
	r := ratOf(q)
	if percent {
		r.Mul(r, big.NewRat(1, 100))
	}
	return r, nil
}
