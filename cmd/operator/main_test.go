package main

import (
	"strings"
	"testing"
)

func TestClusterDomain(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"pod":     {"nameserver 10.96.0.10\nsearch slinky.svc.example.org svc.example.org example.org corp\noptions ndots:5\n", "example.org"},
		"no pod":  {"search corp.example.com\n", "cluster.local"},
		"nothing": {"", "cluster.local"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := clusterDomain(strings.NewReader(tc.text)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"--nodeset-workers=4", "--health-addr", ":1", "--leader-elect", "--zap-log-level=debug"})
	if err != nil {
		t.Fatal(err)
	}
	if *o.workers["NodeSet"] != 4 || o.healthAddr != ":1" || !o.leaderElect {
		t.Errorf("got %+v", o)
	}
	if _, err := parse([]string{"serve"}); err == nil {
		t.Error("an argument was accepted")
	}
}
