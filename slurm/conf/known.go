package conf

import (
	"fmt"
	"regexp"
	"strings"
)

// knownOptions are the names that the slurm.conf parser of Slurm 26.05 takes, those that it only
// takes to say that they are obsolete included.
const knownOptions = `
AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
AccountingStorageParameters AccountingStoragePass AccountingStoragePort AccountingStorageTRES AccountingStorageType
AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment AcctGatherEnergyType AcctGatherFilesystemType
AcctGatherInfinibandType AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType AllowSpecResourcesUsage
AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr BackupController BatchStartTimeout BcastExclude
BcastParameters BurstBufferParameters BurstBufferType CertgenParameters CertgenType CertmgrParameters CertmgrType
CliFilterParameters CliFilterPlugins ClusterName CommunicationParameters CompleteWait ControlAddr ControlMachine
CoreSpecPlugin CpuFreqDef CpuFreqGovernors CredType CryptoType DataParserParameters DebugFlags DefCPUPerGPU
DefMemPerCPU DefMemPerGPU DefMemPerNode DependencyParameters DisableRootJobs DownNodes EioTimeout EnforcePartLimits
Epilog EpilogMsgTime EpilogSlurmctld EpilogTimeout ExtSensorsFreq ExtSensorsType FairShareDampeningFactor
FastSchedule FederationParameters FirstJobId GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime
HashPlugin HealthCheckInterval HealthCheckNodeState HealthCheckProgram HealthCheckTimeout HttpParserType
InactiveLimit InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost
JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort JobCompType JobCompUser JobContainerType
JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue JobSubmitPlugins KeepAliveTime
KillOnBadExit KillWait LaunchParameters LaunchType LicenseParameters Licenses LogTimeFormat MailDomain MailProg
MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount
MaxTasksPerNode MCSParameters MCSPlugin MessageTimeout MetricsAuthUsers MetricsParameters MetricsType MinJobAge
MpiDefault MpiParams NamespaceType NodeFeaturesPlugins NodeName NodeSet OverTimeLimit PartitionName PluginDir
PlugStackConfig PowerAction PowerParameters PowerPlugin PreemptExemptTime PreemptMode PreemptParameters PreemptType
PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife PriorityFavorSmall PriorityFlags PriorityMaxAge
PriorityParameters PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod
PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog PrologEpilogTimeout PrologFlags
PrologSlurmctld PrologTimeout PropagatePrioProcess PropagateResourceLimits PropagateResourceLimitsExcept
RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout
ResvEpilog ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand SbcastParameters
SchedulerParameters SchedulerTimeSlice SchedulerType ScronParameters SelectType SelectTypeParameters SlurmctldAddr
SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile SlurmctldParameters SlurmctldPidFile
SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout SlurmdDebug
SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir SlurmdSyslogDebug
SlurmdTimeout SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel SlurmUser SrunEpilog SrunPortRange SrunProlog
StateSaveLocation SuspendExcNodes SuspendExcParts SuspendExcStates SuspendProgram SuspendRate SuspendTime
SuspendTimeout SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout TLSParameters
TLSType TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth UnkillableStepProgram UnkillableStepTimeout
UrlParserType UsePAM VSizeFactor WaitTime X11Parameters
`

// Unreadable is a place in slurm.conf that keeps slurmctld from starting.
type Unreadable struct {
	// Line counts from 1; of a continued line it is the last.
	Line int
	// Text is what Slurm can't read.
	Text string
	// Why is a sentence without a subject; it names what was probably meant.
	Why string
}

func (u Unreadable) Error() string {
	return fmt.Sprintf("line %d: %q %s; slurmctld would not start", u.Line, abbreviate(strings.TrimSpace(u.Text)), u.Why)
}

// optionPattern is a line's first Key=Value in Slurm's own grammar.
var optionPattern = regexp.MustCompile(`^\s*([A-Za-z0-9_.]+)\s*[-+/*]?=\s*("[^"]*"|\S+)(.*)$`)

// Unreadables finds the lines that the parser of Slurm 26.05 refuses: an option that it
// doesn't know, or more than one option on a line. Values are not looked at.
func Unreadables(text string) []Unreadable {
	known := map[string]bool{}
	for name := range strings.FieldsSeq(knownOptions) {
		known[strings.ToLower(name)] = true
	}
	var out []Unreadable
	for i, line := range logicalLines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.EqualFold(words[0], "Include") {
			continue
		}
		m := optionPattern.FindStringSubmatch(line)
		switch {
		case m == nil:
			out = append(out, Unreadable{i + 1, line, "is not of the form Option=Value"})
		case !known[strings.ToLower(m[1])]:
			out = append(out, Unreadable{i + 1, m[1], "is no option of Slurm 26.05" + meant(m[1])})
		case !hasOwnWords(m[1]) && strings.TrimSpace(m[3]) != "":
			out = append(out, Unreadable{i + 1, m[3], "follows the value of " + m[1] + ": give each option a line of its own, and quote values with blanks"})
		}
	}
	return out
}

func meant(key string) string {
	if name := nearest(key); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}

// hasOwnWords tells whether the words after this one belong to it.
func hasOwnWords(key string) bool {
	for _, k := range []string{"NodeName", "PartitionName", "NodeSet", "DownNodes", "PowerAction", "SlurmctldHost"} {
		if strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// nearest returns the known name within two typing errors of key, empty for none.
func nearest(key string) string {
	best, least := "", 3
	for name := range strings.FieldsSeq(knownOptions) {
		if d := distance(strings.ToLower(name), strings.ToLower(key)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Overridden lists the options in lines of slurm.conf on which the parts of a cluster that
// SlurmConf describes depend.
func Overridden(text string) []string {
	theirs := lastValues(text)
	var out []string
	for _, name := range []string{"AuthType", "ClusterName", "CredType", "SlurmctldAddr", "SlurmctldHost", "SlurmctldPort", "SlurmdPort", "SlurmUser", "StateSaveLocation"} {
		if _, ok := theirs[strings.ToLower(name)]; ok {
			out = append(out, name)
		}
	}
	return out
}
