package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports come from a range below the kernel's ephemeral ports (32768 and up on Linux). Any client could take an ephemeral port while its
// server is down. Worse, a client that keeps dialing such a port on loopback can end up connected to itself, and hold it for good.
const (
	firstPort = 20000
	lastPort  = 29999
)

// errNoPort is returned when the whole range is taken.
var errNoPort = errors.New("no free port")

// portBook keeps clusters from choosing the same port: a port that is free now may belong to a cluster whose server is only stopped. Each
// taken port is a file that holds the path of its owner's folder. The port is free again when that folder is gone.
type portBook struct{ dir string }

func openPortBook() (portBook, error) {
	root, err := cacheRoot()
	return portBook{dir: filepath.Join(root, "port")}, err
}

// take finds n free ports and records them for the owner.
func (b portBook) take(ctx context.Context, owner string, n int) ([]int, error) {
	unlock, err := lock(ctx, filepath.Join(b.dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	ports := make([]int, 0, n)
	for p := firstPort; p <= lastPort && len(ports) < n; p++ {
		if b.isOwned(p) || !bindable(ctx, p) {
			continue
		}
		if err := os.WriteFile(b.file(p), []byte(owner), 0o600); err != nil {
			return nil, fmt.Errorf("take port %d: %w", p, err)
		}
		ports = append(ports, p)
	}
	if len(ports) < n {
		return nil, fmt.Errorf("take %d ports from %d-%d: %w", n, firstPort, lastPort, errNoPort)
	}
	return ports, nil
}

// release frees ports. Ports that are already free are not an error.
func (b portBook) release(ports ...int) error {
	for _, p := range ports {
		if err := os.Remove(b.file(p)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("give back port %d: %w", p, err)
		}
	}
	return nil
}

func (b portBook) file(port int) string { return filepath.Join(b.dir, strconv.Itoa(port)) }

func (b portBook) isOwned(port int) bool {
	owner, err := os.ReadFile(b.file(port))
	return err == nil && exists(string(owner))
}

// bindable reports whether no process listens on a port.
func bindable(ctx context.Context, port int) bool {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
