package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Accounting with the MariaDB of examples/accounting: every pod of the cluster can ask it
// (S190), jobs don't need it, and a new password reaches slurmdbd.
func TestAccounting(t *testing.T) {
	b := open(t, "e2e-accounting")
	t.Parallel()
	b.kubectl("create", "secret", "generic", "-n", b.namespace, "slurm-mariadb", "--from-literal=password="+rand.Text())
	b.secret("sssd", map[string]string{"sssd.conf": localSssdConf})
	c := b.cluster(strings.ReplaceAll(example(t, "accounting/accounting.yaml"), "namespace: slurm\n", "namespace: "+b.namespace+"\n") +
		"---" + b.lean(`  accountingRef: {name: slurm}
  persistence: {enabled: true, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template: {spec: {tolerations: [{operator: Exists}]}}
`+leanConf, 1) + `---
apiVersion: slinky.slurm.net/v1beta1
kind: LoginSet
metadata: {name: login}
spec:
  controllerRef: {name: slurm}
  sssdConfRef: {name: sssd, key: sssd.conf}
  template: {spec: {tolerations: [{operator: Exists}]}}
`)
	c.wait("accounting/slurm", "condition=Ready")
	c.nodesAre("idle", "cpu-0")
	first := c.submit("#!/bin/bash\nexit 0\n", "--output=/dev/null")
	c.jobIs(first, "COMPLETED")
	c.wait("deployment/login", "condition=Available")
	c.accounted(first)

	// Neither MariaDB nor slurmdbd is there while the second job runs. The image has no
	// client of MariaDB: it changes the password itself, when it starts again.
	slurmdbd := c.uids("slurm-accounting-0")
	password := rand.Text()
	c.must("alter user 'slurm'@'%' identified by '"+password+"';\n", "kubectl", "exec", "-i", "-n", c.namespace, "mariadb-0", "--", "sh", "-c", "cat >/var/lib/mysql/rotate.sql")
	c.kubectl("scale", "-n", c.namespace, "statefulset/mariadb", "--replicas=0")
	c.wait("pod/mariadb-0", "delete")
	c.kubectl("delete", "pod", "-n", c.namespace, "slurm-accounting-0", "--grace-period=1", "--wait")
	second := c.submit("#!/bin/bash\nexit 0\n", "--output=/dev/null")
	c.jobIs(second, "COMPLETED")
	if out, err := c.run(t.Context(), "", c.command("sacct", "-n")...); err == nil {
		t.Errorf("sacct works without a database: %s", out)
	}

	start := time.Now()
	c.kubectl("patch", "-n", c.namespace, "statefulset/mariadb", "-p", `{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"mariadb","args":["--init-file=/var/lib/mysql/rotate.sql"]}]}}}}`)
	c.kubectl("patch", "-n", c.namespace, "secret", "slurm-mariadb", "-p", `{"data":{"password":"`+base64.StdEncoding.EncodeToString([]byte(password))+`"}}`)
	c.wait("accounting/slurm", "condition=Ready")
	c.accounted(first, second)
	t.Logf("the job that ran without slurmdbd was in sacct %s after the new password", time.Since(start).Round(time.Second))
	if got := c.uids("slurm-accounting-0"); got["slurm-accounting-0"] == slurmdbd["slurm-accounting-0"] {
		t.Error("slurmdbd's pod is the old one, which has the old password")
	}
}

// localSssdConf knows the users of the container only.
const localSssdConf = `[sssd]
services = nss, pam
domains = DEFAULT
[nss]
[pam]
[domain/DEFAULT]
auth_provider = proxy
id_provider = proxy
proxy_lib_name = files
proxy_pam_target = sssd-shadowutils
`

// accounted waits until sacct shows these jobs as completed in each kind of pod.
func (c *cluster) accounted(jobs ...string) {
	c.t.Helper()
	var want strings.Builder
	for _, job := range jobs {
		want.WriteString(job + "|COMPLETED\n")
	}
	sacct := []string{"sacct", "-n", "--allusers", "--allocations", "--parsable2", "--format=JobID,State"}
	for what, command := range map[string][]string{
		"slurmctld": c.command(sacct...),
		"worker":    c.beside("cpu-0", sacct...),
		"login":     append([]string{"kubectl", "exec", "-n", c.namespace, "deployment/login", "-c", "login", "--"}, sacct...),
	} {
		c.until("sacct in the pod of "+what+" shows jobs "+strings.Join(jobs, ", "), func(ctx context.Context) error {
			out, err := c.run(ctx, "", command...)
			if err == nil && out != want.String() {
				err = fmt.Errorf("it shows %q", out)
			}
			return err
		})
	}
}
