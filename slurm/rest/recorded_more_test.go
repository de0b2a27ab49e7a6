package rest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
)

// moreCases are the recorded answers about reservations and accounting.
func moreCases(t *testing.T) map[string]meaning {
	ctx := t.Context()
	createAccount := func(c *Client) error {
		return c.CreateAccount(ctx, slurm.AccountCreate{Account: slurm.Account{Name: "phys"}})
	}
	createUser := func(c *Client) error {
		return c.CreateUser(ctx, slurm.UserCreate{Name: "bob", Accounts: []string{"phys"}})
	}
	// What is recorded of a creation is not its look-up before.
	put := func(c *Client) error {
		return c.putReservation(ctx, call{name: "create reservation", method: "POST", path: "reservation"}, slurm.ReservationRequest{Name: "r1"})
	}
	removeReservation := func(c *Client) error { return c.DeleteReservation(ctx, "r1") }
	return map[string]meaning{
		"create-reservation":              {put, want{}},
		"create-reservation-unknown-node": {put, want{slurm.ErrNotFound, 2018, "Invalid node name"}},
		"reservations":                    {func(c *Client) error { _, err := c.Reservation(ctx, "r1"); return err }, want{}},
		"reservation-missing":             {func(c *Client) error { _, err := c.Reservation(ctx, "nope"); return err }, want{slurm.ErrNotFound, 9000, "nope"}},
		"delete-reservation":              {removeReservation, want{}},
		"delete-reservation-missing":      {removeReservation, want{slurm.ErrNotFound, 2053, ""}},
		"create-account":                  {createAccount, want{}},
		"create-account-exists":           {createAccount, want{slurm.ErrInvalid, 0, "the account exists"}},
		"create-account-unknown-parent":   {createAccount, want{slurm.ErrInvalid, 2046, "Invalid parent account"}},
		"accounts":                        {func(c *Client) error { _, err := c.Account(ctx, "phys"); return err }, want{}},
		"account-missing":                 {func(c *Client) error { _, err := c.Account(ctx, "nope"); return err }, want{slurm.ErrNotFound, 0, ""}},
		"create-user":                     {createUser, want{}},
		"create-user-no-account":          {createUser, want{slurm.ErrInvalid, 0, "no such account"}},
		"create-user-not-allowed":         {createUser, want{slurm.ErrAuth, 2002, "Only admins"}},
		"user-missing":                    {func(c *Client) error { _, err := c.User(ctx, "nope"); return err }, want{slurm.ErrNotFound, 0, ""}},
		"qos-missing":                     {func(c *Client) error { _, err := c.QOS(ctx, "nope"); return err }, want{slurm.ErrNotFound, 0, ""}},
		"put-qos-unknown-preempt": {func(c *Client) error {
			_, err := c.write(ctx, call{name: "write QOS", plugin: database, method: "POST", path: "qos/"}, nil)
			return err
		}, want{slurm.ErrInvalid, 2066, "nope"}},
		"delete-qos":         {func(c *Client) error { return c.DeleteQOS(ctx, "high") }, want{}},
		"delete-qos-missing": {func(c *Client) error { return c.DeleteQOS(ctx, "high") }, want{slurm.ErrNotFound, 0, ""}},
		"delete-user":        {func(c *Client) error { return c.DeleteUser(ctx, "alice") }, want{}},
		"delete-account":     {func(c *Client) error { return c.DeleteAccount(ctx, "phys") }, want{}},
		"delete-association": {func(c *Client) error {
			return c.DeleteAssociation(ctx, slurm.AssociationKey{Cluster: "test", Account: "phys", User: "alice"})
		}, want{}},
	}
}

func TestRecordedAccounting(t *testing.T) {
	for _, version := range []string{"v0.0.43", "v0.0.44", "v0.0.45"} {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			accounts, err := serve(t, version, recorded(t, version, "accounts")).Accounts(ctx)
			want := []slurm.Account{{Name: "phys", Description: "Physics", Organization: "uni"},
				{Name: "root", Description: "default root account", Organization: "root"}}
			if diff := cmp.Diff(want, accounts); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			users, err := serve(t, version, recorded(t, version, "users")).Users(ctx)
			wantUsers := []slurm.User{{Name: "alice", AdminLevel: "None", DefaultAccount: "phys"}, {Name: "root", AdminLevel: "Administrator", DefaultAccount: "root"}}
			if diff := cmp.Diff(wantUsers, users); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			all, err := serve(t, version, recorded(t, version, "associations")).Associations(ctx, slurm.AssociationFilter{})
			if err != nil || len(all) != 4 {
				t.Fatalf("%d associations, %v", len(all), err)
			}
			wantLast := slurm.Association{AssociationKey: slurm.AssociationKey{Cluster: "test", Account: "phys", User: "alice"}, ID: all[3].ID,
				Lineage: "/phys/0-alice/", Default: true, QOS: []string{"normal"}, Shares: slurm.NumberOf(1), MaxJobs: slurm.NumberOf(4),
				MaxTRESPerJob: "cpu=8,gres/gpu=1"}
			if diff := cmp.Diff(wantLast, all[3]); diff != "" {
				t.Error(diff)
			}
			qos, err := serve(t, version, recorded(t, version, "qos")).QOS(ctx, "high")
			factor := 2.5
			wantQOS := slurm.QOS{ID: qos.ID, Name: "high", Description: "h", Flags: []string{"DENY_LIMIT"}, Priority: slurm.NumberOf(10),
				Preempt: []string{"normal"}, PreemptMode: slurm.StatesOf("CANCEL"), GraceTime: slurm.NumberOf(30), UsageFactor: &factor,
				MaxWallPerJob: slurm.NumberOf(60), MaxTRESPerUser: "cpu=4"}
			if diff := cmp.Diff(wantQOS, qos); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestRecordedController(t *testing.T) {
	for _, version := range []string{"v0.0.43", "v0.0.44", "v0.0.45"} {
		t.Run(version, func(t *testing.T) {
			ctx := t.Context()
			r, err := serve(t, version, recorded(t, version, "reservations")).Reservation(ctx, "r1")
			start := time.Unix(2_000_000_000, 0).UTC()
			want := slurm.Reservation{Name: "r1", Nodes: "x1", NodeCount: 1, CoreCount: 8, TRES: "cpu=16", Users: []string{"root"},
				Flags: []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"}, StartTime: start, EndTime: start.Add(time.Hour), PurgeAfter: r.PurgeAfter}
			if diff := cmp.Diff(want, r); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			licenses, err := serve(t, version, recorded(t, version, "licenses")).Licenses(ctx)
			if diff := cmp.Diff([]slurm.License{{Name: "matlab", Total: 4, Free: 4}}, licenses); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			shares, err := serve(t, version, recorded(t, version, "shares")).Shares(ctx)
			if err != nil || len(shares) != 4 {
				t.Fatalf("shares %+v, %v", shares, err)
			}
			// root has used nothing: its level is infinite, which slurmrestd writes as 2 to the 64th.
			none, half, all := 0.0, 0.5, 1.0
			wantShares := []slurm.Share{
				{User: true, Name: "root", Parent: "root", Cluster: "test", Shares: slurm.NumberOf(1), Normalized: &half, EffectiveUsage: &none, Factor: &all},
				{Name: "phys", Parent: "root", Cluster: "test", Shares: slurm.NumberOf(1), Normalized: &half, EffectiveUsage: &none, Factor: &none, Level: &none},
				{User: true, Name: "alice", Parent: "phys", Cluster: "test", Shares: slurm.NumberOf(1), Normalized: &all, EffectiveUsage: &none, Factor: &none, Level: &none},
			}
			if diff := cmp.Diff(wantShares, shares[1:]); diff != "" {
				t.Error(diff)
			}
			d, err := serve(t, version, recorded(t, version, "diag")).Diag(ctx)
			if err != nil || d.Time.IsZero() || d.JobsSubmitted != 3 || d.JobsStarted != 1 || d.ServerThreads == 0 ||
				len(d.CallsByType) == 0 || d.CallsByType[0].Time == 0 || len(d.CallsByUser) == 0 || len(d.Backfill.Ends) != 6 {
				t.Errorf("statistics %+v, %v", d, err)
			}
		})
	}
}
