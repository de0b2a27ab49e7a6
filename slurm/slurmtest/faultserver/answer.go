package faultserver

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

const contentJSON = "application/json"

// Answer is a whole answer. An empty Type means no body.
type Answer struct {
	Status int
	// Type is the Content-Type.
	Type string
	Body []byte
}

func (a Answer) write(w http.ResponseWriter) {
	if a.Type != "" {
		w.Header().Set("Content-Type", a.Type)
		w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if a.Status >= 400 {
		w.Header().Set("Connection", "close") // so does slurmrestd
	}
	w.WriteHeader(a.Status)
	if a.Status != http.StatusNotModified {
		_, _ = w.Write(a.Body) // the client may be gone
	}
}

// field is a member of an answer; members keep their order, as slurmrestd's do.
type field struct {
	name  string
	value any
}

// problem is an entry of errors, and without its number and error one of warnings.
type problem struct {
	Description string `json:"description"`
	Number      int    `json:"error_number"`
	Error       string `json:"error"`
	Source      string `json:"source"`
}

// jobProblem is an entry of the status of a cancellation.
func jobProblem(id string, code int, known bool) any {
	text, _ := meaning(code)
	var job any = number(false, false, 0)
	if n, err := strconv.ParseUint(id, 10, 32); known && err == nil {
		job = number(true, false, n)
	}
	return map[string]any{
		"error":   map[string]any{"string": text, "code": code, "message": text},
		"step_id": id, "job_id": job, "federation": map[string]any{"sibling": ""},
	}
}

func document(status int, fields ...field) Answer {
	var b bytes.Buffer
	for i, f := range fields {
		if i == 0 {
			b.WriteByte('{')
		} else {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(f.name)
		value, err := json.Marshal(f.value)
		if err != nil {
			panic(err) // only a value made in this package can be at fault
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return Answer{Status: status, Type: contentJSON, Body: b.Bytes()}
}

// meta is what every answer tells about itself.
func meta() field {
	return field{"meta", map[string]any{
		"plugin":  map[string]any{"type": "openapi/slurmctld", "name": "Slurm OpenAPI slurmctld", "data_parser": "", "accounting_storage": ""},
		"client":  map[string]any{"source": "faultserver", "user": "root", "group": "root"},
		"command": []string{},
		"slurm": map[string]any{
			"version": map[string]any{"major": "26", "micro": "5", "minor": "05"}, "release": "26.05.5", "cluster": "test",
		},
	}}
}

// success is a good answer with the given data.
func success(data ...field) Answer {
	return document(http.StatusOK, slices.Concat(data, []field{meta(), {"errors", []any{}}, {"warnings", []any{}}})...)
}

// failure is the answer of a call that Slurm refuses; some calls give their empty data with it.
func failure(status int, p problem, data ...field) Answer {
	return document(status, slices.Concat(data, []field{{"errors", []problem{p}}, {"warnings", []any{}}, meta()})...)
}

func plain(status int, text string) Answer {
	return Answer{Status: status, Type: "text/plain", Body: []byte(text)}
}

func noToken() Answer {
	return plain(http.StatusUnauthorized, "Authentication failure")
}

func unknownURL() Answer {
	return plain(http.StatusNotFound, "Unable to find requested URL endpoint. Please query the '/openapi/v3' endpoint.")
}

// answer is what a healthy slurmrestd says.
func (s *Server) answer(in inquiry, r *http.Request, body []byte) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch token := r.Header.Get("X-SLURM-USER-TOKEN"); {
	case token == "":
		return noToken()
	case len(s.tokens) > 0 && !slices.Contains(s.tokens, token):
		return in.refusal(1007)
	case len(body) > 0 && !json.Valid(body):
		return plain(http.StatusBadRequest, "Failure during parsing")
	}
	before := s.model.writes
	a := s.route(in, r, body)
	if s.model.writes != before {
		s.touch()
	}
	if a.Type == contentJSON {
		a.Body = bytes.Replace(a.Body, []byte(`"data_parser":""`), []byte(`"data_parser":"data_parser/`+in.version+`"`), 1)
	}
	return a
}

func (s *Server) route(in inquiry, r *http.Request, body []byte) Answer {
	m, now := &s.model, s.now()
	switch in.call {
	case Ping:
		return m.ping(in.version)
	case Diag:
		return m.diag(now)
	case JobStates:
		return m.jobStates()
	case Jobs:
		return m.listJobs(now)
	case Job:
		return m.job(in, now)
	case Resources:
		return m.resources(in)
	case Submit:
		return m.submit(in, body, now)
	case Allocate:
		return m.allocate(in, body, now)
	case UpdateJob:
		return m.updateJob(in, body)
	case CancelJob:
		return m.cancel([]string{in.target}, now)
	case CancelJobs:
		return m.cancelBody(in, body, now)
	case Nodes:
		return m.listNodes(r.URL.Query().Get("update_time"), s.changed, now)
	case Node:
		return m.node(in, now)
	case CreateNode:
		return m.createNode(in, body)
	case UpdateNode:
		return m.updateNode(in, body, now)
	case DeleteNode:
		return m.deleteNode(in)
	case Partitions:
		return m.listPartitions(in.version, now)
	case Shares:
		return success(field{"shares", map[string]any{"shares": []any{}, "total_shares": 0}}) // there is no accounting
	case Reconfigure:
		return bare()
	}
	return unknownURL()
}

// bare is the good answer of a call without data.
func bare() Answer {
	return document(http.StatusOK, field{"errors", []any{}}, field{"warnings", []any{}}, meta())
}
