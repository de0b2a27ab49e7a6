// Package faultserver is a slurmrestd for tests, in memory and without a Slurm
// behind it, that fails when and how a test wants: what a real one can't be made
// to do on demand.
//
// A [Server] answers the calls about jobs, nodes and partitions that package rest
// makes, in the versions v0.0.44 and v0.0.45 of the data format, from a small
// [Model] of jobs and nodes that the test sets. Its answers have the form of a
// real slurmrestd's: a contract test sends both the same requests. It has no
// scheduler to speak of: an immediate allocation takes the first nodes that fit,
// and a queued job waits until the test starts it.
//
// A [Fault] replaces the answer to one call, or to all calls of a kind:
//
//	s.Fail(faultserver.JobStates, faultserver.CutOff(100), faultserver.BadGateway)
//	s.FailAlways(faultserver.AnyCall, faultserver.Slow(release))
//
// Over [Server.Dial], client and server are connected in memory, so that they can
// run in a testing/synctest bubble, where time is the test's. Over
// [Server.Listen] they talk TCP on 127.0.0.1.
package faultserver
