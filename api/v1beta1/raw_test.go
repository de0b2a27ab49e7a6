package v1beta1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRawObjectKeepsWhatIsWritten(t *testing.T) {
	type holder struct {
		C ContainerWrapper `json:"c,omitempty,omitzero"`
	}
	for in, want := range map[string]string{
		`{"c":{"securityContext":{"privileged":false},"x":0}}`: `{"c":{"securityContext":{"privileged":false},"x":0}}`,
		`{}`:         `{}`,
		`{"c":null}`: `{}`,
		`{"c":{}}`:   `{"c":{}}`,
	} {
		var h holder
		if err := json.Unmarshal([]byte(in), &h); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		out, err := json.Marshal(h)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, string(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	var h holder
	if err := json.Unmarshal([]byte(`{"c":[1]}`), &h); err == nil {
		t.Error("a list was taken for an object")
	}
}

func TestRawObjectIsCopiedDeeply(t *testing.T) {
	a := RawObject{JSON: []byte(`{"a":1}`)}
	b := a.DeepCopy()
	b.JSON[2] = 'b'
	if string(a.JSON) != `{"a":1}` {
		t.Errorf("the original became %s", a.JSON)
	}
}

func TestHostname(t *testing.T) {
	n := &NodeSet{}
	n.Name = "set"
	for spec, want := range map[string]string{``: "set", `{}`: "set", `{"hostname":"gpu-"}`: "gpu", `{"hostname":"gpu"}`: "gpu"} {
		n.Spec.Template.PodSpec.JSON = []byte(spec)
		if got, err := n.SlurmName(); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", spec, got, err, want)
		}
	}
	n.Spec.Template.PodSpec.JSON = []byte(`{"hostname":7}`)
	if _, err := n.SlurmName(); err == nil {
		t.Error("a number was taken for a host name")
	}
}
