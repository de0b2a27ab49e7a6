package faultserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Slow answers when something comes out of until, such as its end.
func Slow[T any](until <-chan T) Fault {
	return func(e Exchange) {
		select {
		case <-until:
			e.Answer(e.Normal())
		case <-e.Context().Done():
		}
	}
}

// Stale makes the right answer at once and sends it when something comes out of
// until: it tells what was, not what is.
func Stale[T any](until <-chan T) Fault {
	return func(e Exchange) {
		a := e.Normal()
		select {
		case <-until:
			e.Answer(a)
		case <-e.Context().Done():
		}
	}
}

// Delay answers as f does, or as Slurm does where f is nil, after a while on the
// clock of the bubble that the test runs in. Outside of a bubble use Slow.
func Delay(d time.Duration, f Fault) Fault {
	return func(e Exchange) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-e.Context().Done():
			return
		}
		if f == nil {
			e.Answer(e.Normal())
			return
		}
		f(e)
	}
}

// Hang never answers.
func Hang(e Exchange) { <-e.Context().Done() }

// CutOff ends the connection after some bytes of the answer's body.
func CutOff(after int) Fault {
	return func(e Exchange) {
		a := e.Normal()
		e.w.Header().Set("Content-Type", a.Type)
		e.w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
		e.w.WriteHeader(a.Status)
		_, _ = e.w.Write(a.Body[:min(after, max(len(a.Body)-1, 0))])
		_ = http.NewResponseController(e.w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Reset ends the connection instead of an answer; the call has no effect.
func Reset(e Exchange) { e.Reset() }

// Lost lets the call have its effect and ends the connection instead of an answer.
func Lost(e Exchange) {
	e.Normal()
	e.Reset()
}

// Reply gives an answer of its own; the call has no effect.
func Reply(a Answer) Fault {
	return func(e Exchange) { e.Answer(a) }
}

// Garbage says that it is JSON, with status 200, and is what is given.
func Garbage(body string) Fault {
	return Reply(Answer{Status: http.StatusOK, Type: contentJSON, Body: []byte(body)})
}

// Flood is an answer of so many bytes of good JSON, of unknown length before its end.
func Flood(size int64) Fault {
	return func(e Exchange) {
		e.w.Header().Set("Content-Type", contentJSON)
		const open, end = `{"errors":[],"padding":"`, `"}`
		block := bytes.Repeat([]byte{'x'}, 32<<10)
		_, _ = io.WriteString(e.w, open)
		for left := size - int64(len(open)+len(end)); left > 0; left -= int64(len(block)) {
			if _, err := e.w.Write(block[:min(left, int64(len(block)))]); err != nil {
				return // the client has enough
			}
		}
		_, _ = io.WriteString(e.w, end)
	}
}

// Refuse answers with a status and Slurm's number and text; the call has no
// effect. Slurm does so with status 200 at times.
func Refuse(status, code int, text string) Fault {
	return func(e Exchange) {
		e.Answer(e.in.refused(status, code, text))
	}
}

// RefuseJobs answers to a bulk cancellation that it failed for each of these jobs.
func RefuseJobs(code int, ids ...uint32) Fault {
	return func(e Exchange) {
		var status []any
		for _, id := range ids {
			status = append(status, jobProblem(strconv.FormatUint(uint64(id), 10), code, true))
		}
		e.Answer(success(field{"status", status}))
	}
}

// Unchanged is the answer that nothing changed, to whoever asked for changes or not.
func Unchanged(e Exchange) {
	e.Answer(Answer{Status: http.StatusNotModified})
}

// NoToken is the refusal of a call without a token.
func NoToken(e Exchange) { e.Answer(noToken()) }

// BadToken is the refusal of an expired or forged token.
func BadToken(e Exchange) { e.Answer(e.in.refusal(1007)) }

// BadGateway is the answer while slurmctld is away. A real slurmrestd gives it
// after 10 s: Delay(10*time.Second, BadGateway).
func BadGateway(e Exchange) {
	Refuse(http.StatusBadGateway, 1800, "Unable to contact slurm controller (connect failure)")(e)
}

// GatewayTimeout is the answer when slurmctld took the call and didn't reply. Whether it has an effect is unknown; here it has none.
func GatewayTimeout(e Exchange) {
	Refuse(http.StatusGatewayTimeout, 5004, "Socket timed out on send/recv operation")(e)
}

// WrongVersion is the answer of a slurmrestd that doesn't know the version in the URL.
func WrongVersion(e Exchange) { e.Answer(unknownURL()) }

// ContentType is the right answer under another type.
func ContentType(name string) Fault {
	return func(e Exchange) {
		a := e.Normal()
		a.Type = name
		e.Answer(a)
	}
}

// Edit changes the list of a right answer, such as jobs or nodes. Numbers are json.Number.
func Edit(change func(list []any) []any) Fault {
	return func(e Exchange) {
		a := e.Normal()
		d := json.NewDecoder(bytes.NewReader(a.Body))
		d.UseNumber()
		var body map[string]any
		if d.Decode(&body) == nil {
			for _, name := range []string{"jobs", "nodes", "partitions", "pings"} {
				if list, ok := body[name].([]any); ok {
					body[name] = append([]any{}, change(list)...)
				}
			}
			a.Body, _ = json.Marshal(body) // what came from JSON goes to JSON
		}
		e.Answer(a)
	}
}

// Reversed turns the order of the list around.
func Reversed() Fault {
	return Edit(func(list []any) []any {
		out := make([]any, 0, len(list))
		for i := len(list) - 1; i >= 0; i-- {
			out = append(out, list[i])
		}
		return out
	})
}

// Partial keeps the first n elements of the list; none is the empty list of a
// slurmctld that has just started.
func Partial(n int) Fault {
	return Edit(func(list []any) []any { return list[:min(n, len(list))] })
}

// Forgetting leaves the named nodes, or the jobs of these ids, out of the list.
func Forgetting(names ...string) Fault {
	return Edit(func(list []any) []any {
		var out []any
		for _, e := range list {
			o, _ := e.(map[string]any)
			if !anyOf(names, o["name"]) && !anyOf(names, o["job_id"]) {
				out = append(out, e)
			}
		}
		return out
	})
}

func anyOf(names []string, v any) bool {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case json.Number:
		text = v.String()
	}
	for _, n := range names {
		if strings.EqualFold(n, text) {
			return true
		}
	}
	return false
}
