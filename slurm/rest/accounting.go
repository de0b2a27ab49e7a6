package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

var _ slurm.Accounting = (*Client)(nil)

// database is the plugin of slurmrestd that speaks with slurmdbd.
const database = "slurmdb"

func readAccounts(r dialect.Reader) func(io.Reader) ([]slurm.Account, dialect.Reply, error) {
	return r.Accounts
}

// Accounts implements slurm.Accounts.
func (c *Client) Accounts(ctx context.Context) ([]slurm.Account, error) {
	list, _, err := read(ctx, c, call{name: "list accounts", plugin: database, path: "accounts/", list: true}, readAccounts)
	return list, err
}

// Account implements slurm.Accounts.
func (c *Client) Account(ctx context.Context, name string) (slurm.Account, error) {
	op := call{name: fmt.Sprintf("read account %q", name), plugin: database, path: "account/" + name, query: flags("with_coords"), single: true}
	return readOne(ctx, c, op, name, readAccounts, func(a slurm.Account) bool { return a.Name == name })
}

// flags makes a query of switches.
func flags(names ...string) url.Values {
	q := url.Values{}
	for _, n := range names {
		q.Set(n, "")
	}
	return q
}

// CreateAccount implements slurm.Accounts.
func (c *Client) CreateAccount(ctx context.Context, a slurm.AccountCreate) error {
	op := call{name: fmt.Sprintf("create account %q", a.Name), plugin: database, method: http.MethodPost, path: "accounts_association/",
		nothing: "the account exists"}
	if err := plainName(op, a.Name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.CreateAccount(a) })
	return err
}

// UpdateAccount implements slurm.Accounts.
func (c *Client) UpdateAccount(ctx context.Context, a slurm.Account) error {
	op := call{name: fmt.Sprintf("update account %q", a.Name), plugin: database, method: http.MethodPost, path: "accounts/"}
	// slurmdbd would make an account that isn't there, and leave it without an association.
	if _, err := c.Account(ctx, a.Name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.UpdateAccount(a) })
	return err
}

// DeleteAccount implements slurm.Accounts.
func (c *Client) DeleteAccount(ctx context.Context, name string) error {
	op := call{name: fmt.Sprintf("delete account %q", name), plugin: database, method: http.MethodDelete, path: "account/" + name, single: true}
	return c.remove(ctx, op, name)
}

func readUsers(r dialect.Reader) func(io.Reader) ([]slurm.User, dialect.Reply, error) { return r.Users }

// Users implements slurm.Users.
func (c *Client) Users(ctx context.Context) ([]slurm.User, error) {
	list, _, err := read(ctx, c, call{name: "list users", plugin: database, path: "users/", list: true, query: flags("with_assocs")}, readUsers)
	return list, err
}

// User implements slurm.Users.
func (c *Client) User(ctx context.Context, name string) (slurm.User, error) {
	op := call{name: fmt.Sprintf("read user %q", name), plugin: database, path: "user/" + name, query: flags("with_assocs", "with_coords"), single: true}
	return readOne(ctx, c, op, name, readUsers, func(u slurm.User) bool { return u.Name == name })
}

// CreateUser implements slurm.Users.
func (c *Client) CreateUser(ctx context.Context, u slurm.UserCreate) error {
	op := call{name: fmt.Sprintf("create user %q", u.Name), plugin: database, method: http.MethodPost, path: "users_association/",
		nothing: fmt.Sprintf("there is nothing to add: the user is in %s, or no such account exists", strings.Join(u.Accounts, ", "))}
	if err := plainName(op, u.Name); err != nil {
		return err
	}
	if len(u.Accounts) == 0 {
		return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: "a user needs an account"}
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.CreateUser(u) })
	return err
}

// UpdateUser implements slurm.Users.
func (c *Client) UpdateUser(ctx context.Context, u slurm.User) error {
	op := call{name: fmt.Sprintf("update user %q", u.Name), plugin: database, method: http.MethodPost, path: "users/"}
	if _, err := c.User(ctx, u.Name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.UpdateUser(u) })
	return err
}

// DeleteUser implements slurm.Users.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	op := call{name: fmt.Sprintf("delete user %q", name), plugin: database, method: http.MethodDelete, path: "user/" + name, single: true}
	return c.remove(ctx, op, name)
}

// Associations implements slurm.Associations.
func (c *Client) Associations(ctx context.Context, f slurm.AssociationFilter) ([]slurm.Association, error) {
	op := call{name: "list associations", plugin: database, path: "associations/", list: true, query: url.Values{}}
	for key, values := range map[string][]string{"cluster": f.Clusters, "account": f.Accounts, "user": f.Users} {
		for _, v := range values {
			if err := plainName(op, v); err != nil {
				return nil, err
			}
		}
		if len(values) > 0 {
			op.query.Set(key, strings.Join(values, ","))
		}
	}
	list, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Association, dialect.Reply, error) {
		return r.Associations
	})
	return list, err
}

// PutAssociation implements slurm.Associations. slurmdbd forgets the limits of
// resources in each change that doesn't give them, so they are read first, and it
// answers success where it did nothing, so the association is read afterwards.
func (c *Client) PutAssociation(ctx context.Context, a slurm.Association) error {
	op := call{name: "write " + nameOf(a.AssociationKey), plugin: database, method: http.MethodPost, path: "associations/"}
	if err := checkKey(op, a.AssociationKey); err != nil {
		return err
	}
	old, found, err := c.association(ctx, a.AssociationKey)
	if err != nil {
		return err
	}
	a.GrpTRES = cmp.Or(a.GrpTRES, old.GrpTRES)
	a.MaxTRESPerJob = cmp.Or(a.MaxTRESPerJob, old.MaxTRESPerJob)
	a.MaxTRESPerNode = cmp.Or(a.MaxTRESPerNode, old.MaxTRESPerNode)
	if _, err := c.write(ctx, op, func(w dialect.Writer) any { return w.PutAssociation(a) }); err != nil || found {
		return err
	}
	if _, found, err = c.association(ctx, a.AssociationKey); err != nil || found {
		return err
	}
	return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, HTTPStatus: http.StatusOK,
		Text: "slurmdbd didn't make it; has the account an association with the cluster, and is the user known?"}
}

func (c *Client) association(ctx context.Context, k slurm.AssociationKey) (slurm.Association, bool, error) {
	filter := slurm.AssociationFilter{Clusters: []string{k.Cluster}, Accounts: []string{k.Account}}
	if k.User != "" {
		filter.Users = []string{k.User}
	}
	list, err := c.Associations(ctx, filter)
	for _, a := range list {
		if a.AssociationKey == k {
			return a, true, err
		}
	}
	return slurm.Association{}, false, err
}

// DeleteAssociation implements slurm.Associations. Without a user, all of the
// account's on the cluster go; without a partition, those of all partitions.
func (c *Client) DeleteAssociation(ctx context.Context, k slurm.AssociationKey) error {
	op := call{name: "delete " + nameOf(k), plugin: database, method: http.MethodDelete, path: "associations/", single: true,
		query: url.Values{"cluster": {k.Cluster}, "account": {k.Account}}}
	// An empty field would choose the associations of all clusters or accounts.
	if err := checkKey(op, k); err != nil {
		return err
	}
	if k.User != "" {
		op.query.Set("user", k.User)
	}
	if k.Partition != "" {
		op.query.Set("partition", k.Partition)
	}
	_, err := c.write(ctx, op, nil)
	return err
}

func nameOf(k slurm.AssociationKey) string {
	s := fmt.Sprintf("association of account %q", k.Account)
	if k.User != "" {
		s += fmt.Sprintf(" and user %q", k.User)
	}
	if k.Partition != "" {
		s += fmt.Sprintf(" in partition %q", k.Partition)
	}
	return s + fmt.Sprintf(" on cluster %q", k.Cluster)
}

func checkKey(op call, k slurm.AssociationKey) error {
	for _, name := range []string{k.Cluster, k.Account} {
		if err := plainName(op, name); err != nil {
			return err
		}
	}
	for _, name := range []string{k.User, k.Partition} {
		if name == "" {
			continue
		}
		if err := plainName(op, name); err != nil {
			return err
		}
	}
	return nil
}

func readQOS(r dialect.Reader) func(io.Reader) ([]slurm.QOS, dialect.Reply, error) { return r.QOSes }

// QOSes implements slurm.QOSes.
func (c *Client) QOSes(ctx context.Context) ([]slurm.QOS, error) {
	list, _, err := read(ctx, c, call{name: "list QOS", plugin: database, path: "qos/", list: true}, readQOS)
	return list, err
}

// QOS implements slurm.QOSes.
func (c *Client) QOS(ctx context.Context, name string) (slurm.QOS, error) {
	op := call{name: fmt.Sprintf("read QOS %q", name), plugin: database, path: "qos/" + name, single: true}
	return readOne(ctx, c, op, name, readQOS, func(q slurm.QOS) bool { return q.Name == name })
}

// PutQOS implements slurm.QOSes. slurmdbd forgets flags and the preemption mode
// in each change that doesn't give them, so they are read first.
func (c *Client) PutQOS(ctx context.Context, q slurm.QOS) error {
	op := call{name: fmt.Sprintf("write QOS %q", q.Name), plugin: database, method: http.MethodPost, path: "qos/"}
	switch old, err := c.QOS(ctx, q.Name); {
	case err == nil:
		if q.Flags == nil {
			q.Flags = old.Flags
		}
		if q.PreemptMode == nil {
			q.PreemptMode = old.PreemptMode
		}
	case !errors.Is(err, slurm.ErrNotFound):
		return err
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.PutQOS(q) })
	return err
}

// DeleteQOS implements slurm.QOSes.
func (c *Client) DeleteQOS(ctx context.Context, name string) error {
	op := call{name: fmt.Sprintf("delete QOS %q", name), plugin: database, method: http.MethodDelete, path: "qos/" + name, single: true}
	return c.remove(ctx, op, name)
}
