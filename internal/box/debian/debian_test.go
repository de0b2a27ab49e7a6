package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChooseMirror(t *testing.T) {
	for name, c := range map[string]struct{ targets, want string }{
		"third party first":        {"http://vendor.example/apt\tVendor\tVendor\nhttp://mirror.example/debian/\tDebian\tDebian\n", "http://mirror.example/debian"},
		"security is not a mirror": {"http://mirror.example/debian-security\tDebian\tDebian-Security\nhttp://mirror.example/debian\tDebian\tDebian\n", "http://mirror.example/debian"},
		"before the first update":  {"http://vendor.example/apt\t\t\nhttp://mirror.example/debian-security\t\t\nhttp://mirror.example/debian\t\t\n", "http://mirror.example/debian"},
		"none":                     {"http://vendor.example/apt\tVendor\tVendor\n", ""},
		"nothing":                  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseMirror(c.targets)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	status := "runc installed\nbuildah config-files\nlibc6 installed\nmmdebstrap not-installed\n"
	got := missing(status, []string{"runc", "buildah", "mmdebstrap", "unknown"})
	if diff := cmp.Diff([]string{"buildah", "mmdebstrap", "unknown"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheckContainerd(t *testing.T) {
	for text, want := range map[string]string{
		"containerd github.com/containerd/containerd/v2 2.1.9-debian abc\n": "",
		"containerd github.com/containerd/containerd v2.3.0 abc":            "",
		"containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24":     "need 2 or later",
		"containerd":                   "no version",
		"containerd x development abc": "not a number",
	} {
		err := checkContainerd(text)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
