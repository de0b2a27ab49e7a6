package dracpu

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Recent keeps the end of a log in memory, for those who can't read the container's.
type Recent struct {
	mu    sync.Mutex
	lines []string
}

// recentLines and recentLength bound what is kept.
const (
	recentLines  = 300
	recentLength = 1000
)

func (r *Recent) add(prefix, text string) {
	line := strings.TrimSpace(time.Now().UTC().Format(time.RFC3339Nano) + " " + prefix + " " + text)
	if len(line) > recentLength {
		line = line[:recentLength] + "..."
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines = append(r.lines, line); len(r.lines) > recentLines {
		r.lines = slices.Delete(r.lines, 0, len(r.lines)-recentLines)
	}
}

// Lines are the last ones, the newest last.
func (r *Recent) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// Keep returns a logger that writes to log and also keeps what it writes.
func (r *Recent) Keep(log logr.Logger) logr.Logger {
	kept := funcr.New(r.add, funcr.Options{Verbosity: 1 << 10}) // log says what is enabled
	return logr.New(both{log.GetSink(), kept.GetSink()})
}

// both writes to two sinks what the first lets through.
type both struct{ first, second logr.LogSink }

func (b both) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	b.first.Init(info)
	b.second.Init(info)
}

func (b both) Enabled(level int) bool { return b.first.Enabled(level) }

func (b both) Info(level int, msg string, keysAndValues ...any) {
	b.first.Info(level, msg, keysAndValues...)
	b.second.Info(level, msg, keysAndValues...)
}

func (b both) Error(err error, msg string, keysAndValues ...any) {
	b.first.Error(err, msg, keysAndValues...)
	b.second.Error(err, msg, keysAndValues...)
}

func (b both) WithValues(keysAndValues ...any) logr.LogSink {
	return both{b.first.WithValues(keysAndValues...), b.second.WithValues(keysAndValues...)}
}

func (b both) WithName(name string) logr.LogSink {
	return both{b.first.WithName(name), b.second.WithName(name)}
}

func (b both) WithCallDepth(depth int) logr.LogSink {
	return both{deeper(b.first, depth), deeper(b.second, depth)}
}

func deeper(s logr.LogSink, depth int) logr.LogSink {
	if d, ok := s.(logr.CallDepthLogSink); ok {
		return d.WithCallDepth(depth)
	}
	return s
}
