package v1beta1

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// RawObject is a JSON object kept as its author wrote it. The operator lays it over
// what it builds, so an explicit false or 0 must stay different from an absent field,
// and a value of the wrong type must not stop the operator from reading the object
// around it: that is found when the RawObject is used.
//
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type RawObject struct {
	// JSON is the text of one JSON object; empty for none.
	JSON []byte `json:"-"`
}

// RawObjectOf returns the RawObject with the JSON of v, which must marshal to a JSON object.
func RawObjectOf(v any) (RawObject, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return RawObject{}, fmt.Errorf("marshal %T: %w", v, err)
	}
	var r RawObject
	if err := r.UnmarshalJSON(text); err != nil {
		return RawObject{}, fmt.Errorf("marshal %T: %w", v, err)
	}
	return r, nil
}

// IsEmpty tells whether there is no object, or one without fields.
func (r RawObject) IsEmpty() bool {
	t := bytes.TrimSpace(r.JSON)
	return len(t) == 0 || bytes.Equal(t, []byte("null")) || bytes.Equal(t, []byte("{}"))
}

// Decode reads the object into out. Nothing is done for an empty RawObject.
func (r RawObject) Decode(out any) error {
	if r.IsEmpty() {
		return nil
	}
	return json.Unmarshal(r.JSON, out)
}

// MarshalJSON implements json.Marshaler.
func (r RawObject) MarshalJSON() ([]byte, error) {
	if len(r.JSON) == 0 {
		return []byte("{}"), nil
	}
	return r.JSON, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RawObject) UnmarshalJSON(text []byte) error {
	t := bytes.TrimSpace(text)
	if bytes.Equal(t, []byte("null")) {
		r.JSON = nil
		return nil
	}
	if len(t) == 0 || t[0] != '{' {
		return fmt.Errorf("want a JSON object, got %.20q", t)
	}
	r.JSON = bytes.Clone(t)
	return nil
}

// IsZero lets the field option omitzero leave an absent object out.
func (r RawObject) IsZero() bool { return len(r.JSON) == 0 }
