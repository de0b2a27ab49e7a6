package container

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// channelFD is where a program that the plugin starts finds its end of the socket.
const channelFD = 3

// Kinds of records on the channel: each is its kind, a text and a zero byte.
const (
	recordError   = 'E' // a sentence for the user; the step fails
	recordInfo    = 'I' // a sentence for the user
	recordWorkdir = 'W' // where tasks start
	recordSet     = 'V' // NAME=VALUE for the tasks
	recordFiles   = 'F' // comes with the user namespace, the mount namespace and the container's lock
)

// Channel is how this program answers the plugin, which knows nothing but these records.
type Channel struct{ conn *net.UnixConn }

// OpenChannel takes the channel that the parent has given.
func OpenChannel() (Channel, error) {
	f := os.NewFile(channelFD, "channel")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return Channel{}, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return Channel{}, os.ErrInvalid
	}
	return Channel{conn}, nil
}

func (c Channel) send(kind byte, text string) error {
	_, err := c.conn.Write(append([]byte{kind}, strings.ReplaceAll(text, "\x00", "")+"\x00"...))
	return err
}

// Fail says why the step can't run.
func (c Channel) Fail(err error) { _ = c.send(recordError, err.Error()) }

func (c Channel) info(text string) { _ = c.send(recordInfo, text) }

func (c Channel) files(files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := c.conn.WriteMsgUnix([]byte{recordFiles, 0}, unix.UnixRights(fds...), nil)
	return err
}

// file is for a child that goes on with the channel.
func (c Channel) file() (*os.File, error) { return c.conn.File() }
