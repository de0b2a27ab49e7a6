package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Run prepares the container and runs its services until ctx ends.
func Run(ctx context.Context, c Config) error {
	if c.Machine != nil {
		if err := c.Machine.setUp(ctx); err != nil {
			return err
		}
	}
	if err := prepare(c); err != nil {
		return err
	}
	var services sync.WaitGroup
	defer services.Wait()
	if c.Forward != nil {
		l, err := inherited(c.Forward.FD)
		if err != nil {
			return err
		}
		services.Go(func() { forward(ctx, l, c.Forward.To) })
	}
	for _, s := range c.Services {
		if s.Once {
			if err := s.runOnce(ctx, c.LogDir); err != nil {
				return err
			}
			continue
		}
		services.Go(func() { s.keep(ctx, c.LogDir) })
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (s Service) command(ctx context.Context, log io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func openLog(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

func (s Service) runOnce(ctx context.Context, logs string) error {
	log, err := openLog(logs, s.Name)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", s.Name, err)
	}
	defer log.Close()
	if err := s.command(ctx, log).Run(); err != nil {
		return fmt.Errorf("run %s (log: %s): %w", s.Name, log.Name(), err)
	}
	return nil
}

const restartDelay = time.Second

// keep runs the service and starts it again whenever it ends.
func (s Service) keep(ctx context.Context, logs string) {
	for ctx.Err() == nil {
		log, err := openLog(logs, s.Name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "open log of %s: %v\n", s.Name, err)
			return
		}
		err = s.command(ctx, log).Run()
		fmt.Fprintf(log, "=== %s ended: %v\n", s.Name, err)
		log.Close()
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

func (s Service) ready(ctx context.Context) error {
	if s.Socket == "" {
		return nil
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		if conn, err := net.Dial("unix", s.Socket); err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for socket of %s: %w", s.Name, ctx.Err())
		case <-poll.C:
		}
	}
}

func inherited(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	if f == nil {
		return nil, fmt.Errorf("no listener was handed over as file descriptor %d", fd)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over listener from file descriptor %d: %w", fd, err)
	}
	return l, nil
}

// forward joins the host's loopback and the container's network: the listener
// was opened on the host, the connections are made from in here.
func forward(ctx context.Context, l net.Listener, to string) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		in, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "accept:", err)
			continue
		}
		go join(in, to)
	}
}

func join(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	copyTo := func(dst, src net.Conn) {
		_, _ = io.Copy(dst, src) // however it ends, the other side learns of it
		if c, ok := dst.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
		done <- struct{}{}
	}
	go copyTo(out, in)
	go copyTo(in, out)
	<-done
	<-done
}
