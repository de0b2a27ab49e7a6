package conf

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// knownOptions are the names that the slurm.conf parser of Slurm 26.05 takes, those that it only
// takes to say that they are obsolete included. After a colon stands what values an option takes,
// where the parser looks at them: numbers of so many bits, or yes and no.
const knownOptions = `
AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost AccountingStorageHost
AccountingStorageParameters AccountingStoragePass AccountingStoragePort:16 AccountingStorageTRES
AccountingStorageType AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment:bool AcctGatherEnergyType
AcctGatherFilesystemType AcctGatherInfinibandType AcctGatherInterconnectType AcctGatherNodeFreq:16
AcctGatherProfileType AllowSpecResourcesUsage:bool AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr
BackupController BatchStartTimeout:16 BcastExclude BcastParameters BurstBufferParameters BurstBufferType
CertgenParameters CertgenType CertmgrParameters CertmgrType CliFilterParameters CliFilterPlugins ClusterName
CommunicationParameters CompleteWait:16 ControlAddr ControlMachine CoreSpecPlugin CpuFreqDef CpuFreqGovernors
CredType CryptoType DataParserParameters DebugFlags DefCPUPerGPU:64 DefMemPerCPU:64 DefMemPerGPU:64 DefMemPerNode:64
DependencyParameters DisableRootJobs:bool DownNodes EioTimeout:16 EnforcePartLimits Epilog EpilogMsgTime:32
EpilogSlurmctld EpilogTimeout:16 ExtSensorsFreq ExtSensorsType FairShareDampeningFactor:16 FastSchedule:16
FederationParameters FirstJobId:32 GetEnvTimeout GpuFreqDef GresTypes GroupUpdateForce:16 GroupUpdateTime:16
HashPlugin HealthCheckInterval:16 HealthCheckNodeState HealthCheckProgram HealthCheckTimeout:16 HttpParserType
InactiveLimit:16 InteractiveStepOptions JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost
JobCompLoc JobCompParams JobCompPass JobCompPassScript JobCompPort:32 JobCompType JobCompUser JobContainerType
JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend:16 JobRequeue:16 JobSubmitPlugins
KeepAliveTime:32 KillOnBadExit:16 KillWait:16 LaunchParameters LaunchType LicenseParameters Licenses LogTimeFormat
MailDomain MailProg MaxArraySize:32 MaxBatchRequeue:32 MaxDBDMsgs:32 MaxJobCount:32 MaxJobId:32 MaxMemPerCPU:64
MaxMemPerNode:64 MaxNodeCount:32 MaxStepCount:32 MaxTasksPerNode:16 MCSParameters MCSPlugin MessageTimeout:16
MetricsAuthUsers MetricsParameters MetricsType MinJobAge:32 MpiDefault MpiParams NamespaceType NodeFeaturesPlugins
NodeName NodeSet OverTimeLimit:16 PartitionName PluginDir PlugStackConfig PowerAction PowerParameters PowerPlugin
PreemptExemptTime PreemptMode PreemptParameters PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod
PriorityDecayHalfLife PriorityFavorSmall:bool PriorityFlags PriorityMaxAge PriorityParameters
PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType PriorityUsageResetPeriod PriorityWeightAge:32
PriorityWeightAssoc:32 PriorityWeightFairshare:32 PriorityWeightJobSize:32 PriorityWeightPartition:32
PriorityWeightQOS:32 PriorityWeightTRES PrivateData ProctrackType Prolog PrologEpilogTimeout:16 PrologFlags
PrologSlurmctld PrologTimeout:16 PropagatePrioProcess:16 PropagateResourceLimits PropagateResourceLimitsExcept
RebootProgram ReconfigFlags RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate:16
ResumeTimeout:16 ResvEpilog ResvOverRun:16 ResvProlog ReturnToService:16 RoutePlugin SallocDefaultCommand
SbcastParameters SchedulerParameters SchedulerTimeSlice:16 SchedulerType ScronParameters SelectType
SelectTypeParameters SlurmctldAddr SlurmctldDebug SlurmctldHost SlurmctldHttpAuthParameters SlurmctldLogFile
SlurmctldParameters SlurmctldPidFile SlurmctldPort SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg
SlurmctldSyslogDebug SlurmctldTimeout:16 SlurmdDebug SlurmdHttpAuthParameters SlurmdLogFile SlurmdParameters
SlurmdPidFile SlurmdPort:32 SlurmdSpoolDir SlurmdSyslogDebug SlurmdTimeout:16 SlurmdUser SlurmSchedLogFile
SlurmSchedLogLevel:16 SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes
SuspendExcParts SuspendExcStates SuspendProgram SuspendRate:16 SuspendTime SuspendTimeout:16 SwitchParameters
SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog TCPTimeout:16 TLSParameters TLSType TmpFS TopologyParam
TopologyPlugin TrackWCKey:bool TreeWidth:16 UnkillableStepProgram UnkillableStepTimeout:16 UrlParserType UsePAM:bool
VSizeFactor:16 WaitTime:16 X11Parameters
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
// doesn't know, a number or a yes or no that is none, or more than one option on a line.
func Unreadables(text string) []Unreadable {
	known := map[string]string{}
	for word := range strings.FieldsSeq(knownOptions) {
		name, values, _ := strings.Cut(word, ":")
		known[strings.ToLower(name)] = values
	}
	var out []Unreadable
	for i, line := range logicalLines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.EqualFold(words[0], "Include") {
			continue
		}
		m := optionPattern.FindStringSubmatch(line)
		var values string
		var isKnown bool
		if m != nil {
			values, isKnown = known[strings.ToLower(m[1])]
		}
		switch {
		case m == nil:
			out = append(out, Unreadable{i + 1, line, "is not of the form Option=Value"})
		case !isKnown:
			out = append(out, Unreadable{i + 1, m[1], "is no option of Slurm 26.05" + meant(m[1])})
		case !hasOwnWords(m[1]) && strings.TrimSpace(m[3]) != "":
			out = append(out, Unreadable{i + 1, m[3], "follows the value of " + m[1] + ": give each option a line of its own, and quote values with blanks"})
		default:
			if why := misfit(strings.Trim(m[2], `"`), values); why != "" {
				out = append(out, Unreadable{i + 1, m[1] + "=" + m[2], why})
			}
		}
	}
	return out
}

// misfit tells why a value is none of those that an option takes; empty if it may be one.
func misfit(value, values string) string {
	switch values {
	case "":
		return ""
	case "bool":
		for _, v := range []string{"yes", "no", "true", "false", "up", "down", "1", "0"} {
			if strings.EqualFold(v, value) {
				return ""
			}
		}
		return "needs yes or no"
	}
	if strings.EqualFold(value, "unlimited") || strings.EqualFold(value, "infinite") {
		return ""
	}
	bits, err := strconv.Atoi(values)
	if err == nil {
		_, err = strconv.ParseUint(value, 0, bits)
	}
	if err != nil {
		return fmt.Sprintf("needs a number from 0 to %d", uint64(1)<<bits-1)
	}
	return ""
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
	for word := range strings.FieldsSeq(knownOptions) {
		name, _, _ := strings.Cut(word, ":")
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
