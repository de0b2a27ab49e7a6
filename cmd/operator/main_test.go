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
	published := []string{
		"--enable-http2", "--health-addr=:8081", "--leader-elect", "--leader-elect-namespace=a", "--metrics-addr=:8080", "--metrics-secure",
		"--namespaces=a,b", "--propagated-node-conditions=X", "--profile", "--profile-addr=localhost:6060", "--accounting-workers=4",
		"--controller-workers=4", "--loginset-workers=4", "--nodeset-workers=4", "--restapi-workers=4", "--slurmclient-workers=2",
		"--token-workers=4", "--zap-devel", "--zap-encoder=json", "--zap-log-level=3", "--zap-stacktrace-level=error", "--zap-time-encoding=iso8601",
	}
	if _, err := parse(published); err != nil {
		t.Errorf("a flag of the published operator is refused: %v", err)
	}
	if _, err := parse([]string{"serve"}); err == nil {
		t.Error("an argument was accepted")
	}
}

func TestWhatIsLookedAt(t *testing.T) {
	o, err := parse([]string{"--namespaces=a, b", "--exclude-namespaces=c,d"})
	if err != nil {
		t.Fatal(err)
	}
	c := o.cache()
	if _, ok := c.DefaultNamespaces["b"]; !ok || len(c.DefaultNamespaces) != 2 {
		t.Errorf("looked at are %v", c.DefaultNamespaces)
	}
	if got, want := c.DefaultFieldSelector.String(), "metadata.namespace!=c,metadata.namespace!=d"; got != want {
		t.Errorf("the selector is %q, want %q", got, want)
	}
	if o, err = parse(nil); err != nil {
		t.Fatal(err)
	}
	if c := o.cache(); c.DefaultNamespaces != nil || c.DefaultFieldSelector != nil {
		t.Errorf("without flags, not everything is looked at: %+v", c)
	}
}
