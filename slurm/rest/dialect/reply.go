package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

type problemJSON struct {
	Description string `json:"description"`
	Number      int    `json:"error_number"`
	Error       string `json:"error"`
	Source      string `json:"source"`
}

type statusJSON struct {
	Error struct {
		String  string `json:"string"`
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	StepID string `json:"step_id"`
}

type metaJSON struct {
	Plugin struct {
		DataParser string `json:"data_parser"`
	} `json:"plugin"`
}

// List reads a reply and gives each element of its array named list to add,
// without holding the whole array's text in memory. list may be "" where the
// reply has none.
func List[T any](r io.Reader, list string, add func(T) error) (Reply, error) {
	return reply(r, list, func(d *json.Decoder) (bool, error) { return elements(d, add) })
}

// Object reads a reply and decodes its member of the given name to v.
func Object(r io.Reader, name string, v any) (Reply, error) {
	return reply(r, name, func(d *json.Decoder) (bool, error) { return true, d.Decode(v) })
}

// reply reads an answer; data reads the member named name and tells whether it was there.
func reply(r io.Reader, name string, data func(*json.Decoder) (bool, error)) (Reply, error) {
	var rep Reply
	d := json.NewDecoder(r)
	if err := expect(d, json.Delim('{')); err != nil {
		return rep, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return rep, err
		}
		if key == name {
			rep.Listed, err = data(d)
		} else {
			err = rep.member(d, key)
		}
		if err != nil {
			return rep, fmt.Errorf("member %q: %w", key, err)
		}
	}
	return rep, expect(d, json.Delim('}'))
}

// Envelope reads a reply without data.
func Envelope(r io.Reader) (Reply, error) {
	return List(r, "", func(json.RawMessage) error { return nil })
}

func expect(d *json.Decoder, want json.Token) error {
	got, err := d.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("found %v where %v was expected", got, want)
	}
	return nil
}

// elements reads an array; null counts as absent.
func elements[T any](d *json.Decoder, add func(T) error) (bool, error) {
	t, err := d.Token()
	if err != nil || t == nil {
		return false, err
	}
	if t != json.Delim('[') {
		return false, errors.New("not a list")
	}
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return false, err
		}
		if err := add(v); err != nil {
			return false, err
		}
	}
	return true, expect(d, json.Delim(']'))
}

func (rep *Reply) member(d *json.Decoder, key json.Token) error {
	switch key {
	case "errors":
		rep.Slurm = true
		return problems(d, &rep.Errors)
	case "warnings":
		return problems(d, &rep.Warnings)
	case "status":
		_, err := elements(d, func(s statusJSON) error {
			if s.Error.Code != 0 {
				rep.Status = append(rep.Status, Problem{Code: s.Error.Code, Text: s.Error.String, Job: s.StepID})
			}
			return nil
		})
		return err
	case "job_id":
		var n Number
		err := d.Decode(&n)
		if n.Value <= 0xffffffff {
			rep.JobID = uint32(n.Value)
		}
		return err
	case "last_update":
		var n Number
		err := d.Decode(&n)
		rep.LastUpdate = n.Time()
		return err
	case "meta":
		var m metaJSON
		err := d.Decode(&m)
		rep.Parser = m.Plugin.DataParser
		return err
	}
	var skipped json.RawMessage
	return d.Decode(&skipped)
}

// maxProblems is how many errors or warnings of an answer are kept.
const maxProblems = 100

func problems(d *json.Decoder, to *[]Problem) error {
	_, err := elements(d, func(p problemJSON) error {
		text := strings.TrimSpace(p.Description)
		switch {
		case text == "" || p.Number != 0 && text == p.Error:
			text = p.Error
		case p.Number != 0 && p.Error != "":
			text += ": " + p.Error
		}
		if len(*to) < maxProblems {
			*to = append(*to, Problem{Code: p.Number, Text: text, Source: p.Source})
		}
		return nil
	})
	return err
}
