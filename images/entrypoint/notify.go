package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// notifySocket receives the messages of systemd's notification protocol.
type notifySocket struct {
	path     string
	mainPIDs chan int // process ids from MAINPID=; 0 is the mark of flush
	conn     *net.UnixConn
	mark     string
	dir      string
}

// listenNotify makes the socket in a folder of its own below the first of the folders that can be written to.
func listenNotify(folders ...string) (*notifySocket, error) {
	var failed []error
	for _, parent := range folders {
		dir, err := os.MkdirTemp(parent, ".notify-")
		if err != nil {
			failed = append(failed, err)
			continue
		}
		path := filepath.Join(dir, "socket")
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			failed = append(failed, err, os.RemoveAll(dir))
			continue
		}
		n := &notifySocket{path: path, dir: dir, conn: conn, mainPIDs: make(chan int), mark: "FLUSH=" + rand.Text()}
		go n.receive()
		return n, nil
	}
	return nil, fmt.Errorf("make a socket for notifications: %w", errors.Join(failed...))
}

func (n *notifySocket) close() {
	n.conn.Close()
	os.RemoveAll(n.dir)
}

func (n *notifySocket) receive() {
	buf := make([]byte, 4096)
	for {
		size, err := n.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if message := string(buf[:size]); message == n.mark {
			n.mainPIDs <- 0
		} else if pid := mainPID(message); pid > 0 {
			n.mainPIDs <- pid
		}
	}
}

// flush gives f every process id that was sent before the call. A program announces its successor before it ends, so whoever
// sees it end must flush first. The order is kept by a mark that goes through the same socket.
func (n *notifySocket) flush(f func(pid int)) {
	out, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer out.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := out.Write([]byte(n.mark))
		sent <- err
	}()
	for {
		select {
		case pid := <-n.mainPIDs:
			if pid == 0 {
				return
			}
			f(pid)
		case err := <-sent:
			if err != nil {
				return
			}
		}
	}
}

// mainPID reads MAINPID from a message, 0 if it isn't there.
func mainPID(message string) int {
	for line := range strings.Lines(message) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "MAINPID="); ok {
			if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
				return pid
			}
		}
	}
	return 0
}
