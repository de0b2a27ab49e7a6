package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest/dialect"
)

// Nodes implements slurm.Nodes.
func (c *Client) Nodes(ctx context.Context) ([]slurm.Node, error) {
	nodes, _, err := c.NodesSince(ctx, time.Time{})
	return nodes, err
}

// NodesSince returns all nodes, and the time to give in the next call, if any node
// changed since the given time; if none did, it returns the given time and no nodes.
func (c *Client) NodesSince(ctx context.Context, since time.Time) ([]slurm.Node, time.Time, error) {
	op := call{name: "list nodes", path: "nodes/", list: true}
	if !since.IsZero() {
		op.query = url.Values{"update_time": {strconv.FormatInt(since.Unix(), 10)}}
	}
	nodes, rep, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Node, dialect.Reply, error) { return r.Nodes })
	switch {
	case err != nil:
		return nil, since, err
	case rep == nil:
		return nil, since, nil
	}
	if nodes == nil {
		nodes = []slurm.Node{} // none at all, which isn't "none changed"
	}
	return nodes, rep.LastUpdate, nil
}

// Node implements slurm.Nodes. What is allocated on the node is as of the last
// list of nodes: slurmctld doesn't count it for a single one.
func (c *Client) Node(ctx context.Context, name string) (slurm.Node, error) {
	op := call{name: fmt.Sprintf("read node %q", name), path: "node/" + name, single: true}
	if err := plainName(op, name); err != nil {
		return slurm.Node{}, err
	}
	nodes, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Node, dialect.Reply, error) { return r.Nodes })
	if err != nil {
		return slurm.Node{}, err
	}
	for _, n := range nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return slurm.Node{}, foreign(op)
}

// CreateNode implements slurm.Nodes. Comment and Extra are set by a second call,
// because slurmctld doesn't take them at creation: if that one fails, the node
// exists without them.
func (c *Client) CreateNode(ctx context.Context, n slurm.NodeCreate) error {
	op := call{name: fmt.Sprintf("create node %q", n.Name), method: http.MethodPost, path: "new/node/", nodeLine: true, since: "v0.0.44"}
	if err := plainName(op, n.Name); err != nil {
		return err
	}
	line, err := nodeLine(n)
	if err != nil {
		return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Err: err}
	}
	if _, err := c.write(ctx, op, func(w dialect.Writer) any { return w.CreateNode(line) }); err != nil {
		return err
	}
	u, some := notCreated(n)
	if !some {
		return nil
	}
	return c.UpdateNode(ctx, n.Name, u)
}

// CreateNodes creates nodes that differ by name and address alone, all of them or none: slurmctld
// rebuilds its tables once instead of once for each. Comment and Extra are set as by CreateNode. Nodes
// with a GRESConf can't be among them, as slurmctld reads it for the first node only.
func (c *Client) CreateNodes(ctx context.Context, nodes []slurm.NodeCreate) error {
	if len(nodes) == 1 {
		return c.CreateNode(ctx, nodes[0])
	}
	op := call{name: fmt.Sprintf("create %d nodes", len(nodes)), method: http.MethodPost, path: "new/node/", nodeLine: true, since: "v0.0.44"}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		if err := plainName(op, n.Name); err != nil {
			return err
		}
		names[i] = n.Name
	}
	line, err := nodesLine(nodes)
	if err != nil {
		return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Err: err}
	}
	if _, err := c.write(ctx, op, func(w dialect.Writer) any { return w.CreateNode(line) }); err != nil {
		return err
	}
	u, some := notCreated(nodes[0])
	if !some {
		return nil
	}
	op = call{name: fmt.Sprintf("update %d nodes", len(nodes)), method: http.MethodPost, path: "nodes/", since: "v0.0.44"}
	_, err = c.write(ctx, op, func(w dialect.Writer) any { return w.UpdateNodes(names, u) })
	return err
}

// notCreated is what of a node slurmctld takes in an update only, and whether there is any of it.
func notCreated(n slurm.NodeCreate) (u slurm.NodeUpdate, some bool) {
	if n.Comment != "" {
		u.Comment = &n.Comment
	}
	if n.Extra != "" {
		u.Extra = &n.Extra
	}
	return u, u.Comment != nil || u.Extra != nil
}

// UpdateNode implements slurm.Nodes.
func (c *Client) UpdateNode(ctx context.Context, name string, u slurm.NodeUpdate) error {
	op := call{name: fmt.Sprintf("update node %q", name), method: http.MethodPost, path: "node/" + name, single: true}
	if err := plainName(op, name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, func(w dialect.Writer) any { return w.UpdateNode(u) })
	return err
}

// DeleteNode implements slurm.Nodes.
func (c *Client) DeleteNode(ctx context.Context, name string) error {
	op := call{name: fmt.Sprintf("delete node %q", name), method: http.MethodDelete, path: "node/" + name, single: true}
	if err := plainName(op, name); err != nil {
		return err
	}
	_, err := c.write(ctx, op, nil)
	return err
}

// plainName refuses what isn't the name of one thing: slurmrestd would take
// "n[1-100]" or "ALL" for many nodes, a comma for many users, and a slash for another URL.
func plainName(op call, name string) error {
	ok := name != "" && len(name) <= 253 && !strings.EqualFold(name, "ALL") && !strings.EqualFold(name, "DEFAULT") && name != "." && name != ".."
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if ok {
		return nil
	}
	return &slurm.Error{Kind: slurm.ErrInvalid, Op: op.name, Text: fmt.Sprintf("%q is no plain name: it may have letters, digits, '-', '_' and '.' only, and not be a word that means all", name)}
}

// Partitions implements slurm.Client.
func (c *Client) Partitions(ctx context.Context) ([]slurm.Partition, error) {
	op := call{name: "list partitions", path: "partitions/", list: true}
	parts, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Partition, dialect.Reply, error) {
		return r.Partitions
	})
	return parts, err
}

// Ping implements slurm.Client. It tells nothing about the token unless Slurm
// says so: a controller that refuses it may be shown as not responding.
func (c *Client) Ping(ctx context.Context) ([]slurm.Ping, error) {
	op := call{name: "ping slurmctld", path: "ping/"}
	pings, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Ping, dialect.Reply, error) { return r.Pings })
	if err != nil {
		return nil, err
	}
	for _, p := range pings {
		if !p.Responding && strings.Contains(strings.ToLower(p.Status), "authentication") {
			return nil, &slurm.Error{Kind: slurm.ErrAuth, Op: op.name, HTTPStatus: http.StatusOK, Text: p.Status}
		}
	}
	return pings, nil
}

// Diag implements slurm.Statistics.
func (c *Client) Diag(ctx context.Context) (slurm.Diag, error) {
	op := call{name: "read slurmctld's statistics", method: http.MethodGet, path: "diag/", read: true}
	var out slurm.Diag
	rep, err := c.do(ctx, op, nil, func(d dialect.Dialect, a answer) (rep dialect.Reply, err error) {
		out, rep, err = d.Read.Diag(bytes.NewReader(a.body))
		return rep, err
	})
	if err == nil && !rep.Listed {
		err = foreign(op)
	}
	if err != nil {
		return slurm.Diag{}, err
	}
	return out, nil
}

// Licenses implements slurm.Licenses.
func (c *Client) Licenses(ctx context.Context) ([]slurm.License, error) {
	op := call{name: "list licenses", path: "licenses/", list: true}
	list, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.License, dialect.Reply, error) { return r.Licenses })
	return list, err
}

// Reconfigure implements slurm.Client. slurmctld answers before it is done, and
// refuses calls for some seconds meanwhile.
func (c *Client) Reconfigure(ctx context.Context) error {
	op := call{name: "reconfigure slurmctld", method: http.MethodGet, path: "reconfigure/"}
	_, err := c.write(ctx, op, nil)
	return err
}

// Shares implements slurm.Shares.
func (c *Client) Shares(ctx context.Context) ([]slurm.Share, error) {
	op := call{name: "list shares", path: "shares", list: true}
	list, _, err := read(ctx, c, op, func(r dialect.Reader) func(io.Reader) ([]slurm.Share, dialect.Reply, error) { return r.Shares })
	return list, err
}
