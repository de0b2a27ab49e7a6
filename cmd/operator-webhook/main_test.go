package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"--server-addr=:1", "--leader-elect", "--namespaces=a, b", "--namespace=n", "--cert-secret=s", "--zap-log-level=debug"})
	if err != nil {
		t.Fatal(err)
	}
	if o.serverAddr != ":1" || !o.leaderElect || len(o.watched()) != 2 || o.certSecret != "s" || o.metricsAddr != "0" {
		t.Errorf("got %+v", o)
	}
	for args, want := range map[string]string{
		"serve":                      "there are flags only",
		"--metrics-secure":           "--metrics-addr other than 0",
		"--cert-secret=s":            "--namespace is needed",
		"--metrics-addr=:1 --nosuch": "nosuch",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to contain %q", args, err, want)
		}
	}
	if _, err := (&options{serverAddr: "9443"}).server(nil); err == nil {
		t.Error("an address without a port was taken")
	}
}
