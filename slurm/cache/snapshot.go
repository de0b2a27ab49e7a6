package cache

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// snapshotVersion changes when a file of the version before can't be read any more.
const snapshotVersion = 1

// snapshotHead is the first line of a file. A line for each job and node follows.
type snapshotHead struct {
	Version int
	// JobsRead and NodesRead are when what follows was read; zero for never.
	JobsRead, NodesRead time.Time
	Jobs, Nodes         int
}

type snapshotJob struct {
	Job        slurm.Job
	Allocation *slurm.Allocation `json:",omitempty"`
}

// Save writes what the cache knows to a file, for Load: a line of JSON with the
// version and the times, then one for each job and node. The file is replaced as
// a whole or stays as it was, and only its owner may read it.
func (c *Cache) Save(path string) error {
	c.mu.RLock()
	head := snapshotHead{
		Version: snapshotVersion, JobsRead: c.jobsRead, NodesRead: c.nodesRead,
		Jobs: len(c.jobs), Nodes: len(c.nodes),
	}
	jobs, nodes := make([]*job, 0, len(c.jobs)), make([]*node, 0, len(c.nodes))
	for _, j := range c.jobs {
		jobs = append(jobs, j)
	}
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	c.mu.RUnlock()
	err := replaceFile(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		err := e.Encode(head)
		for i := 0; i < len(jobs) && err == nil; i++ {
			err = e.Encode(snapshotJob{jobs[i].record, jobs[i].allocation})
		}
		for i := 0; i < len(nodes) && err == nil; i++ {
			err = e.Encode(nodes[i].record)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("save the view of Slurm to %s: %w", path, err)
	}
	return nil
}

// replaceFile gives a file new content, at once and for good.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreClosed(f.Close()), os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	if err = write(w); err != nil {
		return err
	}
	if err = errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Load makes what Save wrote the content of a cache, which must be empty and not
// run yet. Age then counts from when the content was read from Slurm, and the
// cache isn't Synced before Run has read everything again: what the file has is
// compared with Slurm like any other old view, and jobs and nodes that are gone
// go when Slurm says so. A file that can't be read changes nothing.
func (c *Cache) Load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load a view of Slurm: %w", err)
	}
	defer f.Close()
	head, jobs, nodes, err := readSnapshot(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return fmt.Errorf("load a view of Slurm from %s: %w", path, err)
	}
	var read []*job
	for _, j := range jobs {
		now := c.newJob(j.Job, groupOf(j.Job), 0)
		now.allocation = j.Allocation
		read = append(read, now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.jobs) > 0 || len(c.nodes) > 0 || c.sequence > 0 {
		return fmt.Errorf("load a view of Slurm from %s: the cache is in use already", path)
	}
	for _, j := range read {
		g, ok := c.groups[j.group]
		if !ok {
			g = &group{} // no states: it is to be read again
		}
		g.add(j.record.ID, j)
		c.putGroup(j.group, g)
		c.setJob(j.record.ID, j)
	}
	for _, n := range nodes {
		c.setNode(n, 0)
	}
	c.jobsRead, c.nodesRead = head.JobsRead, head.NodesRead
	return nil
}

// readSnapshot reads a whole file or fails.
func readSnapshot(r io.Reader) (head snapshotHead, jobs []snapshotJob, nodes []slurm.Node, err error) {
	d := json.NewDecoder(r)
	if err := d.Decode(&head); err != nil {
		return head, nil, nil, fmt.Errorf("it is no saved view: %w", err)
	}
	if head.Version != snapshotVersion {
		return head, nil, nil, fmt.Errorf("its version is %d, and this program reads version %d", head.Version, snapshotVersion)
	}
	ids, names := map[uint32]bool{}, map[string]bool{}
	for range head.Jobs {
		var j snapshotJob
		if err := d.Decode(&j); err != nil {
			return head, nil, nil, fmt.Errorf("job %d of %d: %w", len(jobs)+1, head.Jobs, err)
		}
		if j.Job.ID == 0 || ids[j.Job.ID] {
			return head, nil, nil, fmt.Errorf("job id %d is there twice or is none", j.Job.ID)
		}
		ids[j.Job.ID] = true
		j.Job.States = slurm.StatesOf(j.Job.States...)
		jobs = append(jobs, j)
	}
	for range head.Nodes {
		var n slurm.Node
		if err := d.Decode(&n); err != nil {
			return head, nil, nil, fmt.Errorf("node %d of %d: %w", len(nodes)+1, head.Nodes, err)
		}
		if n.Name == "" || names[n.Name] {
			return head, nil, nil, fmt.Errorf("node name %q is there twice or is none", n.Name)
		}
		names[n.Name] = true
		n.States = slurm.StatesOf(n.States...)
		nodes = append(nodes, n)
	}
	return head, jobs, nodes, nil
}
