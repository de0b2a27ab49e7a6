package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/plan/policy"
)

// Entries reads the administrator's ConfigMap of rules, by namespace, and says which entries can't be read.
func Entries(data map[string]string) (entries map[string]policy.Entry, failed map[string]string) {
	entries, failed = map[string]policy.Entry{}, map[string]string{}
	for name, text := range data {
		e, err := ParseEntry(text)
		if err != nil {
			failed[name] = err.Error()
			continue
		}
		entries[name] = e
	}
	return entries, failed
}

// ParseEntry reads the rules of one namespace, as
//
//	allowed: {account: "physics,chemistry", timelimit: 120}
//	default: {account: physics}
func ParseEntry(text string) (policy.Entry, error) {
	asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return policy.Entry{}, fmt.Errorf("not valid YAML: %w", err)
	}
	var in struct {
		Allowed map[string]scalar `json:"allowed"`
		Default map[string]scalar `json:"default"`
	}
	dec := json.NewDecoder(bytes.NewReader(asJSON))
	dec.DisallowUnknownFields()
	err = dec.Decode(&in)
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &shape) && shape.Field == "":
		return policy.Entry{}, fmt.Errorf("expected the keys allowed and default, with names and values, and not: %s", shape.Value)
	case errors.As(err, &shape):
		return policy.Entry{}, fmt.Errorf("%s is a %s; expected names with values", shape.Field, shape.Value)
	case err != nil:
		return policy.Entry{}, fmt.Errorf("expected the keys allowed and default, with names and values: %w", err)
	}
	plain := func(m map[string]scalar) map[string]string {
		out := make(map[string]string, len(m))
		for k, v := range m {
			out[k] = string(v)
		}
		return out
	}
	return policy.Entry{Allowed: plain(in.Allowed), Default: plain(in.Default)}, nil
}

// scalar is a text, a number or a truth value, as people write them in YAML.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(text []byte) error {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*s = scalar(v)
	case json.Number, bool:
		*s = scalar(fmt.Sprint(v))
	default:
		return errors.New("a value is neither a text nor a number")
	}
	return nil
}
