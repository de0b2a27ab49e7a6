package slurmtest_test

import (
	"strings"
	"testing"

	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

func TestWithAccounting(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true})
	if got := cluster.Run(t, "sacctmgr", "-nP", "show", "cluster", "format=cluster"); got != "test" {
		t.Errorf("slurmdbd knows the clusters %q, want test", got)
	}
	cluster.Run(t, "sacctmgr", "-i", "add", "account", "phys")
	accounts, err := cluster.Client(t, "root").Accounts(t.Context())
	if err != nil || len(accounts) != 2 || accounts[0].Name != "phys" {
		t.Errorf("accounts %+v, %v", accounts, err)
	}
	if got := cluster.Run(t, "scontrol", "show", "config"); !strings.Contains(got, "AccountingStorageEnforce = associations,limits,qos") {
		t.Error("associations, limits and QOS aren't enforced")
	}
}
