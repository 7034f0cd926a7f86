package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// writes marks verbs that change something: they have -o for the changed resource.
const writes = "writes"

// writing adds the flags of a verb that changes something. Without -o it prints notes only.
func (c *cli) writing(cmd *cobra.Command) *cobra.Command {
	c.reading(cmd)
	delete(cmd.Annotations, reads)
	cmd.Annotations[writes] = "true"
	f := cmd.Flags().Lookup("output")
	f.Usage = "print the changed resource: table, wide, json, yaml, name or jsonl"
	f.DefValue = ""
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !f.Changed {
			c.output = ""
		}
		return inner(cmd, args)
	}
	return cmd
}

// answers reports whether the changed resource is to be printed.
func (c *cli) answers() bool { return c.output != "" || c.template != "" }

// answer prints a changed resource, if -o asks for it.
func answer[T proto.Message](c *cli, t table[T], x T) error {
	if !c.answers() {
		return nil
	}
	return one(c, t, x)
}

// answers is answer for several.
func answers[T proto.Message](c *cli, t table[T], all []T) error {
	if !c.answers() {
		return nil
	}
	return list(c, t, all)
}

// fact makes the answer of a verb whose result is no resource; values are strings, numbers or
// booleans.
func fact(fields map[string]any) *structpb.Struct {
	x, err := structpb.NewStruct(fields)
	if err != nil {
		return &structpb.Struct{}
	}
	return x
}

// factTable prints facts with these columns, the first of which is the name.
func factTable(columns ...string) table[*structpb.Struct] {
	t := table[*structpb.Struct]{id: func(x *structpb.Struct) string { return x.Fields[columns[0]].GetStringValue() }}
	for _, name := range columns {
		t.columns = append(t.columns,
			column[*structpb.Struct]{name: strings.ToUpper(name), whole: true, text: func(x *structpb.Struct) string {
				return fmt.Sprint(x.Fields[name].AsInterface())
			}})
	}
	return t
}

// resourceOf reads the resource of a subject after a change, and prints it.
func resourceOf(c *cli, s subject) error {
	switch s.kind {
	case "task":
		got, err := call(c, calls.GetTask, &pb.GetTaskRequest{Id: s.name})
		if err != nil {
			return err
		}
		return answer(c, taskTable(c), got.Task)
	case "job", "node":
		got, err := call(c, calls.GetJob, &pb.GetJobRequest{Domain: s.domain, Name: s.name})
		if err != nil {
			return err
		}
		return answer(c, jobTable(c), got.Job)
	case "service", "instance":
		got, err := call(c, calls.GetService, &pb.GetServiceRequest{Domain: s.domain, Name: s.name})
		if err != nil {
			return err
		}
		return answer(c, serviceTable(c), got.Service)
	}
	return failf(api.ExitUsage, "a %s cannot be printed", s.kind)
}
