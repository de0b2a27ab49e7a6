package faultserver

import (
	"net/http"
	"time"
)

// meaning is how slurmrestd words Slurm's number, and the HTTP status it gives.
func meaning(code int) (text string, status int) {
	status = http.StatusUnprocessableEntity
	switch code {
	case -1:
		return "Unspecified error", http.StatusInternalServerError
	case 1007:
		return "Protocol authentication error", http.StatusNetworkAuthenticationRequired
	case 2000:
		return "Invalid partition name specified", status
	case 2001:
		return "No partition specified or system default partition", status
	case 2002:
		return "Access/permission denied", status
	case 2013:
		return "Immediate execution impossible, insufficient priority", status
	case 2015:
		return "Requested partition configuration not available now", status
	case 2016:
		return "Requested nodes are busy", status
	case 2017:
		return "Invalid job id specified", http.StatusNotFound
	case 2018:
		return "Invalid node name specified", status
	case 2021:
		return "Job/step already completing or completed", status
	case 2028:
		return "Invalid node state specified", status
	case 2085:
		return "Job is not running", status
	case 2168:
		return "Node already exists in the node table", status
	case 2180:
		return "Invalid node state transition", status
	case 2189:
		return "Invalid configuration for external job", http.StatusInternalServerError
	}
	return "Unknown error", http.StatusInternalServerError
}

// refusal is the answer to a call that Slurm refuses for the reason of this number.
func (in inquiry) refusal(code int) Answer {
	text, status := meaning(code)
	return in.refused(status, code, text)
}

// refused is a refusal with a status and a text of its own.
func (in inquiry) refused(status, code int, text string) Answer {
	p := problem{Number: code, Error: text}
	var data []field
	switch in.call {
	case JobStates:
		p.Description, p.Source = "Unable to query job states", "slurm_load_job_state()"
		data = []field{{"jobs", nil}}
	case Jobs:
		p.Description, p.Source = "Unable to query jobs", "slurm_load_jobs()"
		data = noJobs()
	case Job:
		p.Description, p.Source = "Unable to query JobId="+in.target, "_handle_job_get"
		data = noJobs()
	case Resources:
		p.Description, p.Source = "Unable to query JobId="+in.target, "_handle_get"
		data = []field{{"nodes", []any{}}}
	case Submit:
		p.Description, p.Source = "Batch job submission failed", "slurm_submit_batch_job()"
	case Allocate:
		p.Description, p.Source = "Job allocation request failed", "slurm_allocate_resources_blocking()"
	case UpdateJob:
		p.Description, p.Source = "Job update requested failed", "slurm_update_job2()"
		data = []field{{"results", nil}}
	case CancelJob, CancelJobs:
		p.Description, p.Source = "Signal request failed", "slurm_kill_jobs()"
		data = []field{{"status", []any{}}}
	case Nodes:
		p.Description, p.Source = "Failure to query nodes", "_dump_nodes"
	case Node:
		p.Description, p.Source = "Failure to query node "+in.target, "_dump_nodes"
	case CreateNode:
		p.Description, p.Source = "Failure to create node", "_create_node"
	case UpdateNode:
		p.Description, p.Source = "Failure to update node "+in.target, "_update_node"
	case DeleteNode:
		p.Description, p.Source = "Failure to delete node "+in.target, "op_handler_node"
	default:
		p.Description, p.Source = "The call failed", "slurmrestd"
	}
	return failure(status, p, data...)
}

func noJobs() []field {
	return []field{{"jobs", []any{}}, {"last_backfill", when(time.Time{})}, {"last_update", when(time.Time{})}}
}
