package main

import "testing"

func TestTable(t *testing.T) {
	got, err := markdown([]byte(`# -- First | line
# and second.
a: null
b:
  # -- Nested.
  c: [1]
  # No description.
  d: e
  # -- Image.
  image:
    repository: x/y
    tag: "1"
`))
	if err != nil {
		t.Fatal(err)
	}
	want := "| value | default | meaning |\n|---|---|---|\n" +
		"| `a` | `null` | First \\| line and second. |\n| `b.c` | `[1]` | Nested. |\n| `b.image` | `x/y:1` | Image. |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
