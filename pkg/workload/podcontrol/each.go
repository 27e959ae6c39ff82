package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/flotilla-io/flotilla/pkg/control"
)

// shownErrors is how many errors of a class are included in a message.
const shownErrors = 5

// errSkip: the write was skipped because the object has changed meanwhile.
var errSkip = errors.New("the object was changed or deleted")

// writeOutcome is the outcome of one write.
type writeOutcome struct {
	name string
	err  error
	done bool
}

// each calls do for 0..n-1: the first batch has first calls, each next one twice as many, until a batch has an error.
func (w *Writer) each(ctx context.Context, n, first int, do func(context.Context, int) (string, error)) Result {
	outcomes := make([]writeOutcome, n)
	var failed *multierror.Error
	for from, size := 0, first; from < n && failed == nil; from, size = from+size, size*2 {
		to := min(n, from+size)
		w.batch(ctx, outcomes[from:to], func(ctx context.Context, i int) (string, error) { return do(ctx, from+i) })
		for _, o := range outcomes[from:to] {
			if o.err != nil && !errors.Is(o.err, errSkip) && !isRefused(o.err) {
				failed = multierror.Append(failed, o.err)
			}
		}
	}
	var r Result
	for _, o := range outcomes {
		switch {
		case !o.done:
		case o.err == nil:
			r.Done = append(r.Done, o.name)
		case errors.Is(o.err, errSkip):
			r.Skipped++
		case isRefused(o.err):
			r.Refused = append(r.Refused, o.err.Error())
		case errors.Is(o.err, ErrTaken):
			r.Taken = append(r.Taken, o.name)
		}
	}
	if failed != nil {
		failed.ErrorFormat = format
		r.Err = failed
	}
	return r
}

// parallel is how many requests run at once.
func (w *Writer) parallel() int {
	if w.Parallel <= 0 {
		return control.Parallel
	}
	return w.Parallel
}

// batch fills outcomes, running several requests at once.
func (w *Writer) batch(ctx context.Context, outcomes []writeOutcome, do func(context.Context, int) (string, error)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(w.parallel(), len(outcomes)) {
		wg.Go(func() {
			for i := range next {
				name, err := do(ctx, i)
				outcomes[i] = writeOutcome{name: name, err: err, done: true}
			}
		})
	}
	for i := range outcomes {
		next <- i
	}
	close(next)
	wg.Wait()
}

// format puts errors on one line: the first five, then how many more.
func format(errs []error) string {
	shown := make([]string, 0, shownErrors)
	for _, err := range errs[:min(len(errs), shownErrors)] {
		shown = append(shown, err.Error())
	}
	line := strings.Join(shown, "; ")
	if more := len(errs) - len(shown); more > 0 {
		line += fmt.Sprintf("; and %d more", more)
	}
	return line
}
