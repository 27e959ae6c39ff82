package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// handOver passes a process's listening socket to the next process, through a Unix socket in a folder that both can access. Both processes share
// the listening socket and its queue, so no connection is lost when the first process closes it.
type handOver struct {
	path   string
	socket *net.UnixListener
	served *net.TCPListener
	// taken is closed once another process serves.
	taken chan struct{}
	once  sync.Once
}

// takeTimeout limits each exchange.
const takeTimeout = 5 * time.Second

// listen returns the listener of the process that listens at path, or a new listener for addr if no process does. From then on, the next process
// can take it over. served tells the previous process that this one serves its requests.
func (h *handOver) listen(ctx context.Context, addr string) (l net.Listener, served func() error, err error) {
	var config net.ListenConfig
	if h.path == "" {
		l, err := config.Listen(ctx, "tcp", addr)
		return l, func() error { return nil }, err
	}
	before, l, err := take(ctx, h.path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // There is no other process.
		l, err = config.Listen(ctx, "tcp", addr)
	case err == nil:
		log.Printf("testapp takes over %s", l.Addr())
	}
	if err != nil {
		return nil, nil, err
	}
	var ok bool
	if h.served, ok = l.(*net.TCPListener); !ok {
		return nil, nil, fmt.Errorf("%s is not a TCP listener", addr)
	}
	if err := h.offer(ctx); err != nil {
		return nil, nil, err
	}
	return l, func() error {
		if before == nil {
			return nil
		}
		_, err := before.Write([]byte{0})
		return errors.Join(err, before.Close())
	}, nil
}

// take gets the listener of the process that listens at path. The returned connection is for telling that process that its requests are served.
func take(ctx context.Context, path string) (*net.UnixConn, net.Listener, error) {
	dialer := net.Dialer{Timeout: takeTimeout}
	dialed, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nil, err
	}
	conn, ok := dialed.(*net.UnixConn)
	if !ok {
		return nil, nil, fmt.Errorf("%s is not a Unix socket", path)
	}
	l, err := receive(conn)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("take over from %s: %w", path, err), conn.Close())
	}
	return conn, l, nil
}

func receive(conn *net.UnixConn) (net.Listener, error) {
	if err := conn.SetDeadline(time.Now().Add(takeTimeout)); err != nil {
		return nil, err
	}
	data, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, errors.New("it sends no socket")
	}
	sockets, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(sockets[0]), "listener")
	l, err := net.FileListener(file) // The listener has its own copy of the file.
	return l, errors.Join(err, file.Close())
}

// offer lets the next process take over from this one instead of from the previous one: it replaces the file of the Unix socket.
func (h *handOver) offer(ctx context.Context) error {
	own := fmt.Sprintf("%s.%d", h.path, time.Now().UnixNano())
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", own)
	if err != nil {
		return err
	}
	socket, ok := l.(*net.UnixListener)
	if !ok {
		return fmt.Errorf("%s is not a Unix socket", own)
	}
	socket.SetUnlinkOnClose(false) // By then the name belongs to the next process.
	h.socket = socket
	if err := os.Rename(own, h.path); err != nil {
		return errors.Join(err, socket.Close())
	}
	go h.answer()
	return nil
}

// answer sends the listener to every process that connects, until the socket is closed.
func (h *handOver) answer() {
	for {
		conn, err := h.socket.AcceptUnix()
		if err != nil {
			return
		}
		if err := h.send(conn); err != nil {
			log.Printf("testapp hands over: %v", err) // The next process may try again.
		} else {
			h.once.Do(func() { close(h.taken) })
		}
		_ = conn.Close()
	}
}

func (h *handOver) send(conn *net.UnixConn) error {
	if err := conn.SetDeadline(time.Now().Add(takeTimeout)); err != nil {
		return err
	}
	raw, err := h.served.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(socket uintptr) {
		_, _, sent = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(socket)), nil)
	}); err != nil || sent != nil {
		return errors.Join(err, sent)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait until it is served: %w", err)
	}
	return nil
}

// close ends answer.
func (h *handOver) close() error {
	if h.socket == nil {
		return nil
	}
	return h.socket.Close()
}
