// Package controltest makes the base of controllers under test.
package controltest

import (
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// New returns the base of a controller under test. It sends one request at a time, so what a test counts in its client needs no lock.
func New(c client.Client, live client.Reader, clk clock.PassiveClock, events event.Recorder) *control.Controller {
	return &control.Controller{
		Client: c, Live: live, Clock: clk, Expect: expect.New("Test", clk, 0), Events: events, Parallel: 1,
	}
}
