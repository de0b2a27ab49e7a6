package faultserver

import (
	"context"
	"net"
	"sync"
	"syscall"
	"testing"
)

// Dial connects to the server in memory, whatever the address: it is a client's
// way to connect, as in http.Transport.
func (s *Server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := func(err error) error { return &net.OpError{Op: "dial", Net: network, Err: err} }
	if s.isDown() {
		return nil, refused(syscall.ECONNREFUSED)
	}
	client, server := net.Pipe()
	select {
	case s.pipe.accept <- server:
		return client, nil
	case <-s.pipe.closed:
		return nil, refused(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, refused(ctx.Err())
	}
}

// Listen opens a port of 127.0.0.1 and returns the URL of it. A server that is
// down resets its connections there.
func (s *Server) Listen(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { s.http.Serve(gate{l, s.isDown}) }) //nolint:errcheck // it ends with ErrServerClosed
	t.Cleanup(func() { l.Close(); running.Wait() })
	return "http://" + l.Addr().String()
}

// gate resets the connections that come while the server is down.
type gate struct {
	net.Listener
	down func() bool
}

func (g gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil || !g.down() {
			return c, err
		}
		abort(c)
	}
}

// abort closes a connection; over TCP, the client gets a reset.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// pipeListener accepts connections that Dial makes.
type pipeListener struct {
	accept chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipeListener() *pipeListener {
	closed := make(chan struct{})
	return &pipeListener{accept: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }
