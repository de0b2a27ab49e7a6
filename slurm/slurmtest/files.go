package slurmtest

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

//go:embed init.sh
var initScript []byte

// freePorts returns ports of 127.0.0.1 that nobody listens on now.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all are chosen, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

type file struct {
	name string
	data []byte
	mode os.FileMode
}

// settings are for init.sh.
func settings(o Options, ports []int) []byte {
	accountingPort := 0
	if o.WithAccounting {
		accountingPort = ports[3]
	}
	return fmt.Appendf(nil, "REST_PORT=%d\nCONTROLLER_PORT=%d\nACCOUNTING_PORT=%d\nNODES=%d\n", ports[1], ports[0], accountingPort, o.Nodes)
}

// writeFiles makes a cluster's folder and returns the key for tokens. The ports
// are slurmctld's, slurmrestd's, the one external nodes stand for, and one for each slurmd.
func writeFiles(dir string, o Options, ports []int) ([]byte, error) {
	for name, mode := range map[string]os.FileMode{"etc": 0o755, "run": 0o755, "log": 0o777, "tmp": 0o777, "ctld": 0o700, "slurmd": 0o755, "db": 0o700} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		if err := os.Chmod(path, mode); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	secret := make([]byte, 1024)
	rand.Read(secret)
	key := []byte(rand.Text() + rand.Text())
	files := []file{
		{"etc/slurm.key", secret, 0o600},
		{"etc/jwt_hs256.key", key, 0o600},
		{"etc/slurm.conf", []byte(slurmConf(o, ports)), 0o644},
		{"etc/cgroup.conf", []byte("CgroupPlugin=disabled\n"), 0o644},
		{"etc/gres.conf", []byte(o.GRESConf), 0o644},
		{"hosts", []byte(hosts), 0o644},
		{"init.sh", initScript, 0o755},
		{"settings", settings(o, ports), 0o644},
	}
	if o.Topology != "" {
		files = append(files, file{"etc/topology.yaml", []byte(o.Topology), 0o644})
	}
	if o.WithAccounting {
		files = append(files, file{"etc/slurmdbd.conf", []byte(slurmdbdConf(ports[3])), 0o600})
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, f.mode); err != nil {
			return nil, err
		}
	}
	owners := map[string]int{"etc/slurm.key": slurmUID, "etc/jwt_hs256.key": slurmUID, "ctld": slurmUID, "run": slurmUID, "db": mysqlUID}
	if o.WithAccounting {
		owners["etc/slurmdbd.conf"] = slurmUID
	}
	for name, uid := range owners {
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			return nil, err
		}
	}
	return key, nil
}

func slurmConf(o Options, ports []int) string {
	lines := []string{
		"ClusterName=" + o.ClusterName,
		"SlurmctldHost=slurmctl(127.0.0.1)",
		fmt.Sprintf("SlurmctldPort=%d", ports[0]),
		fmt.Sprintf("SlurmdPort=%d", ports[2]),
		"SlurmUser=slurm",
		"CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
		"AuthType=auth/slurm", "CredType=auth/slurm", "AuthInfo=use_client_ids",
		"AuthAltTypes=auth/jwt", "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key",
		"StateSaveLocation=/cluster/ctld", "SlurmdSpoolDir=/cluster/slurmd/%n",
		"SlurmctldPidFile=/cluster/run/ctld.pid", "SlurmdPidFile=/cluster/run/%n.pid",
		"SlurmctldDebug=info", "SlurmdDebug=info",
		"ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none", "MpiDefault=none",
		"SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory",
		"SchedulerParameters=" + o.SchedulerParameters,
		"ReturnToService=2", "SlurmdParameters=config_overrides", "GresTypes=gpu",
		"MaxNodeCount=20000", "MaxJobCount=50000", "MinJobAge=300", "KillWait=2",
		"SlurmctldTimeout=60", "SlurmdTimeout=60", "InactiveLimit=0",
		"MetricsType=metrics/openmetrics",
		"SlurmctldParameters=enable_configless",
	}
	if o.WithAccounting {
		lines = append(lines, "AccountingStorageType=accounting_storage/slurmdbd", "AccountingStorageHost=127.0.0.1",
			fmt.Sprintf("AccountingStoragePort=%d", ports[3]), "AccountingStorageTRES=gres/gpu", "AccountingStorageEnforce=associations,limits,qos")
	}
	lines = append(lines, o.Config...)
	for i := range o.Nodes {
		lines = append(lines, fmt.Sprintf("NodeName=n%d NodeHostname=slurmctl NodeAddr=127.0.0.1 Port=%d CPUs=8 CoresPerSocket=8 RealMemory=16000 State=UNKNOWN",
			i+1, ports[4+i]))
	}
	if o.Nodes > 0 {
		lines = append(lines, fmt.Sprintf("PartitionName=real Nodes=n[1-%d] Default=YES State=UP", o.Nodes))
	}
	lines = append(lines, "NodeSet=ns_ext Feature=ext", "PartitionName=ext Nodes=ns_ext State=UP")
	return strings.Join(lines, "\n") + "\n"
}

func slurmdbdConf(port int) string {
	return fmt.Sprintf(`AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
AuthInfo=use_client_ids
CommunicationParameters=NoInAddrAny
DbdHost=slurmctl
DbdAddr=127.0.0.1
DbdPort=%d
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
PidFile=/cluster/run/dbd.pid
`, port)
}
