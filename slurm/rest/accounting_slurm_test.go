package rest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

func TestAccounting(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true, ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	for version, c := range clients(t, cluster) {
		t.Run(version, func(t *testing.T) {
			testAccounts(t, c)
			testAssociations(t, c, cluster)
			testQOS(t, c)
			for _, err := range []error{c.DeleteUser(t.Context(), "alice"), c.DeleteAccount(t.Context(), "sub"), c.DeleteAccount(t.Context(), "phys")} {
				if err != nil {
					t.Error(err)
				}
			}
			kind(t, "deletion of a deleted user", c.DeleteUser(t.Context(), "alice"), slurm.ErrNotFound)
			kind(t, "deletion of a deleted account", c.DeleteAccount(t.Context(), "phys"), slurm.ErrNotFound)
		})
	}
}

func testAccounts(t *testing.T, c *rest.Client) {
	t.Helper()
	ctx := t.Context()
	phys := slurm.AccountCreate{Account: slurm.Account{Name: "phys", Description: "Physics", Organization: "uni"}, Shares: 7}
	if err := c.CreateAccount(ctx, phys); err != nil {
		t.Fatal(err)
	}
	kind(t, "an account that exists", c.CreateAccount(ctx, phys), slurm.ErrInvalid)
	if err := c.CreateAccount(ctx, slurm.AccountCreate{Account: slurm.Account{Name: "sub"}, Parent: "phys"}); err != nil {
		t.Fatal(err)
	}
	phys.Description = "Physics, \"all\" of it"
	if err := c.UpdateAccount(ctx, phys.Account); err != nil {
		t.Fatal(err)
	}
	if a, err := c.Account(ctx, "phys"); err != nil || !cmp.Equal(a, phys.Account) {
		t.Errorf("account %+v, %v", a, err)
	}
	kind(t, "update of a missing account", c.UpdateAccount(ctx, slurm.Account{Name: "nope"}), slurm.ErrNotFound)
	if err := c.CreateUser(ctx, slurm.UserCreate{Name: "alice", Accounts: []string{"phys", "sub"}, DefaultAccount: "phys"}); err != nil {
		t.Fatal(err)
	}
	kind(t, "a user without an account", c.CreateUser(ctx, slurm.UserCreate{Name: "bob"}), slurm.ErrInvalid)
	kind(t, "a user in no such account", c.CreateUser(ctx, slurm.UserCreate{Name: "bob", Accounts: []string{"nope"}}), slurm.ErrInvalid)
	if err := c.UpdateUser(ctx, slurm.User{Name: "alice", AdminLevel: "Operator", DefaultAccount: "sub"}); err != nil {
		t.Fatal(err)
	}
	if u, err := c.User(ctx, "alice"); err != nil || u.AdminLevel != "Operator" || u.DefaultAccount != "sub" {
		t.Errorf("user %+v, %v", u, err)
	}
	kind(t, "update of a missing user", c.UpdateUser(ctx, slurm.User{Name: "nope"}), slurm.ErrNotFound)
}

func testAssociations(t *testing.T, c *rest.Client, cluster *slurmtest.Cluster) {
	t.Helper()
	ctx := t.Context()
	key := slurm.AssociationKey{Cluster: "test", Account: "phys", User: "alice"}
	put := slurm.Association{AssociationKey: key, MaxJobs: slurm.NumberOf(1), Shares: slurm.NumberOf(3), GrpTRES: "cpu=12,gres/gpu=2"}
	if err := c.PutAssociation(ctx, put); err != nil {
		t.Fatal(err)
	}
	read := func() slurm.Association {
		t.Helper()
		list, err := c.Associations(ctx, slurm.AssociationFilter{Accounts: []string{"phys"}, Users: []string{"alice"}})
		if err != nil || len(list) != 1 {
			t.Fatalf("associations %+v, %v", list, err)
		}
		return list[0]
	}
	if a := read(); a.MaxJobs != put.MaxJobs || a.Shares != put.Shares || a.GrpTRES != put.GrpTRES || a.MaxSubmitJobs.Set || a.Lineage != "/phys/0-alice/" {
		t.Errorf("association %+v", a)
	}
	// The limit holds: alice's second job waits for it. slurmdbd tells slurmctld by and by.
	alice := cluster.Client(t, "alice")
	job := request("limited", 1)
	job.Account = "phys"
	var first uint32
	until(t, "slurmctld knows the account", func() bool {
		var err error
		first, err = alice.AllocateNow(ctx, job)
		return err == nil
	})
	second, err := alice.Submit(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the second job waits for the limit", func() bool {
		j, err := alice.Job(ctx, second)
		return err == nil && strings.HasPrefix(j.Reason, "AssocMaxJobs")
	})
	if err := alice.CancelJobs(ctx, first, second); err != nil {
		t.Fatal(err)
	}
	if err := c.PutAssociation(ctx, slurm.Association{AssociationKey: key, MaxJobs: slurm.Infinite(), DefaultQOS: "normal"}); err != nil {
		t.Fatal(err)
	}
	if a := read(); a.MaxJobs.Set || a.Shares != put.Shares || a.GrpTRES != put.GrpTRES || a.DefaultQOS != "normal" {
		t.Errorf("association after its limit was taken away: %+v", a)
	}
	lost := slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "nope", User: "alice"}}
	if err := c.PutAssociation(ctx, lost); !errors.Is(err, slurm.ErrInvalid) {
		t.Errorf("an association with no such account: %v, want ErrInvalid", err)
	}
	bad := put
	bad.GrpTRES = "cpu=many"
	kind(t, "a limit that is none", c.PutAssociation(ctx, bad), slurm.ErrInvalid)
	sub := slurm.AssociationKey{Cluster: "test", Account: "sub", User: "alice"}
	kind(t, "an association of all accounts", c.DeleteAssociation(ctx, slurm.AssociationKey{Cluster: "test", User: "alice"}), slurm.ErrInvalid)
	if err := c.UpdateUser(ctx, slurm.User{Name: "alice", DefaultAccount: "phys"}); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteAssociation(ctx, sub); err != nil {
		t.Fatal(err)
	}
	kind(t, "a deleted association", c.DeleteAssociation(ctx, sub), slurm.ErrNotFound)
}

func testQOS(t *testing.T, c *rest.Client) {
	t.Helper()
	ctx := t.Context()
	factor := 2.5
	put := slurm.QOS{Name: "high", Description: "h", Flags: []string{"DENY_LIMIT"}, Priority: slurm.NumberOf(10), Preempt: []string{"normal"},
		PreemptMode: slurm.StatesOf("CANCEL"), GraceTime: slurm.NumberOf(30), UsageFactor: &factor, MaxWallPerJob: slurm.NumberOf(60), MaxTRESPerUser: "cpu=4"}
	if err := c.PutQOS(ctx, put); err != nil {
		t.Fatal(err)
	}
	got, err := c.QOS(ctx, "high")
	put.ID = got.ID
	if diff := cmp.Diff(put, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := c.PutQOS(ctx, slurm.QOS{Name: "high", MaxWallPerJob: slurm.Infinite(), GraceTime: slurm.NumberOf(0)}); err != nil {
		t.Fatal(err)
	}
	got, err = c.QOS(ctx, "high")
	put.MaxWallPerJob, put.GraceTime = slurm.Number{}, slurm.NumberOf(0)
	if diff := cmp.Diff(put, got); diff != "" || err != nil {
		t.Errorf("after a change: %v\n%s", err, diff)
	}
	kind(t, "an unknown QOS to preempt", c.PutQOS(ctx, slurm.QOS{Name: "high", Preempt: []string{"nope"}}), slurm.ErrInvalid)
	if list, err := c.QOSes(ctx); err != nil || len(list) != 2 {
		t.Errorf("QOS %+v, %v", list, err)
	}
	if err := c.DeleteQOS(ctx, "high"); err != nil {
		t.Fatal(err)
	}
	_, err = c.QOS(ctx, "high")
	kind(t, "a deleted QOS", err, slurm.ErrNotFound)
}

func TestAccountingAway(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{WithAccounting: true})
	c := cluster.Client(t, "root")
	if _, err := c.Accounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.Kill(t, "slurmdbd")
	_, err := c.Accounts(t.Context())
	kind(t, "slurmdbd is dead: a read", err, slurm.ErrUnavailable)
	kind(t, "slurmdbd is dead: a write", c.PutQOS(t.Context(), slurm.QOS{Name: "q"}), slurm.ErrUnavailable)
	if _, err := c.JobStates(t.Context()); err != nil {
		t.Errorf("slurmctld without slurmdbd: %v", err)
	}
	cluster.Restart(t, "slurmdbd")
	until(t, "slurmdbd answers again", func() bool { _, err := c.Accounts(t.Context()); return err == nil })
}

func TestReservations(t *testing.T) {
	cluster := slurmtest.Start(t, slurmtest.Options{Config: []string{"Licenses=matlab:4"}, ExternalNodes: []slurm.NodeCreate{slurmtest.ExternalNode("x1")}})
	for version, c := range clients(t, cluster) {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			start := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
			r := slurm.ReservationRequest{Name: "r1", Nodes: []string{"x1"}, Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"},
				StartTime: start, Duration: slurm.NumberOf(60)}
			if err := c.CreateReservation(ctx, r); err != nil {
				t.Fatal(err)
			}
			kind(t, "a reservation that exists", c.CreateReservation(ctx, r), slurm.ErrInvalid)
			if err := c.UpdateReservation(ctx, "r1", slurm.ReservationRequest{EndTime: start.Add(2 * time.Hour), Flags: []string{"NO_MAINT"}}); err != nil {
				t.Fatal(err)
			}
			got, err := c.Reservation(ctx, "r1")
			want := slurm.Reservation{Name: "r1", Nodes: "x1", NodeCount: 1, CoreCount: 8, TRES: "cpu=16", Users: []string{"root"},
				Flags: []string{"IGNORE_JOBS", "SPEC_NODES"}, StartTime: start, EndTime: start.Add(2 * time.Hour), PurgeAfter: got.PurgeAfter}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			kind(t, "update of a missing reservation", c.UpdateReservation(ctx, "r2", r), slurm.ErrNotFound)
			if err := c.DeleteReservation(ctx, "r1"); err != nil {
				t.Fatal(err)
			}
			kind(t, "deletion of a missing reservation", c.DeleteReservation(ctx, "r1"), slurm.ErrNotFound)
			if list, err := c.Reservations(ctx); err != nil || len(list) != 0 {
				t.Errorf("reservations %+v, %v, want none", list, err)
			}
			if l, err := c.Licenses(ctx); err != nil || len(l) != 1 || l[0].Name != "matlab" || l[0].Free != 4 {
				t.Errorf("licenses %+v, %v", l, err)
			}
			_, err = c.Accounts(ctx)
			if e := kind(t, "accounting without slurmdbd", err, slurm.ErrUnavailable); !strings.Contains(e.Text, "has no accounting") {
				t.Errorf("error %v doesn't say why", e)
			}
		})
	}
}
