package dialect

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
)

// stateOnly is what jobs/state/ gives. The document describes it as a whole job,
// but the id comes as text, with the task of an array or the component of a heterogeneous job.
type stateOnly struct {
	JobID string  `json:"job_id"`
	State Strings `json:"state"`
}

// JobStates reads the answer to jobs/state/, which has an entry for each job and
// is asked for all the time. In the form that slurmrestd gives, it is read
// without reflection, in about a twentieth of the time; in any other, as JSON
// is read elsewhere. Entries share their States where these are the same.
func JobStates(r io.Reader) ([]slurm.JobState, Reply, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, Reply{}, err
	}
	var out []slurm.JobState
	add := func(s stateOnly) error {
		id, part, err := splitID(s.JobID)
		out = append(out, slurm.JobState{ID: id, Part: part, States: slurm.StatesOf(s.State...)})
		return err
	}
	entries, rest, ok := scanStates(text)
	if !ok {
		rep, err := List(bytes.NewReader(text), "jobs", add)
		return out, rep, err
	}
	out = entries
	rep, err := List(bytes.NewReader(rest), "jobs", add)
	return out, rep, err
}

// readAll returns what r has; of a buffer its own memory, which is then only read.
func readAll(r io.Reader) ([]byte, error) {
	if buffer, ok := r.(*bytes.Buffer); ok {
		return buffer.Bytes(), nil
	}
	return io.ReadAll(r)
}

// splitID takes "12", "12_3" and "12+1" apart.
func splitID(s string) (id uint32, part string, err error) {
	if i := strings.IndexAny(s, "_+"); i >= 0 {
		s, part = s[:i], s[i:]
	}
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), part, err
}

const (
	statesOpen  = `{"jobs":[`
	stateID     = `{"job_id":"`
	stateStates = `","state":`
)

// scanStates reads the entries of an answer in slurmrestd's own compact form, and
// returns the rest of the answer with an empty list in place of them. It is
// not ok where the text is anything else, be it good JSON or not.
func scanStates(text []byte) (entries []slurm.JobState, rest []byte, ok bool) {
	t, ok := bytes.CutPrefix(text, []byte(statesOpen))
	if !ok {
		return nil, nil, false
	}
	const shortest = len(stateID + "1" + stateStates + `["PENDING"]},`)
	entries = make([]slurm.JobState, 0, len(t)/shortest)
	sets := map[string]slurm.States{}
	for len(t) > 0 && t[0] != ']' {
		var s slurm.JobState
		if s, t, ok = scanState(t, sets); !ok {
			return nil, nil, false
		}
		entries = append(entries, s)
		// A comma has an entry behind it, and only a comma has.
		if len(t) > 1 && t[0] == ',' && t[1] == '{' {
			t = t[1:]
		} else if len(t) == 0 || t[0] != ']' {
			return nil, nil, false
		}
	}
	return entries, append([]byte(statesOpen), t...), true
}

// scanState reads the entry that t begins with, and returns what follows it. sets
// has the sets of states that were seen, by their text.
func scanState(t []byte, sets map[string]slurm.States) (s slurm.JobState, rest []byte, ok bool) {
	if t, ok = bytes.CutPrefix(t, []byte(stateID)); !ok {
		return s, nil, false
	}
	digits := 0
	var id uint64
	for digits < len(t) && digits < 11 && '0' <= t[digits] && t[digits] <= '9' {
		id = 10*id + uint64(t[digits]-'0')
		digits++
	}
	end := digits
	if end < len(t) && t[end] != '"' {
		end = bytes.IndexByte(t, '"')
	}
	if digits == 0 || id > 0xffffffff || end < digits || end >= len(t) {
		return s, nil, false
	}
	s.ID = uint32(id)
	if part := t[digits:end]; len(part) > 0 {
		if part[0] != '_' && part[0] != '+' || !plain(part) {
			return s, nil, false
		}
		s.Part = string(part)
	}
	if t, ok = bytes.CutPrefix(t[end:], []byte(stateStates)); !ok {
		return s, nil, false
	}
	end = bytes.IndexByte(t, '}')
	if end < 0 {
		return s, nil, false
	}
	if s.States, ok = sets[string(t[:end])]; !ok {
		// A brace within a word ends in bad JSON here, so nothing is cut short unseen.
		var words Strings
		if json.Unmarshal(t[:end], &words) != nil {
			return s, nil, false
		}
		s.States = slurm.StatesOf(words...)
		sets[string(t[:end])] = s.States
	}
	return s, t[end+1:], true
}

// plain tells whether a JSON text means itself.
func plain(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b == '\\' || b >= 0x7f {
			return false
		}
	}
	return true
}
