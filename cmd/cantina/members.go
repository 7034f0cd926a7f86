package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

func memberTable() table[*pb.StoreMember] {
	role := func(x *pb.StoreMember) string {
		switch {
		case x.Learner:
			return "learner"
		case x.Leader:
			return "leader"
		}
		return "voter"
	}
	return table[*pb.StoreMember]{
		id: func(x *pb.StoreMember) string { return x.Name },
		columns: []column[*pb.StoreMember]{
			{name: "MEMBER", whole: true, text: func(x *pb.StoreMember) string { return x.Name }},
			{name: "ID", whole: true, text: func(x *pb.StoreMember) string { return x.Id }},
			{name: "PEER", whole: true, text: func(x *pb.StoreMember) string { return x.Peer }},
			{name: "ROLE", text: role},
			{name: "REACHABLE", text: func(x *pb.StoreMember) string { return yesNo(x.Reachable) }},
			{name: "SIZE", text: func(x *pb.StoreMember) string {
				return reported(x, bytesText(x.Size))
			}},
			{name: "BEHIND", text: func(x *pb.StoreMember) string { return reported(x, fmt.Sprint(x.Behind)) }},
			{name: "ADDRESSES", wide: true, text: func(x *pb.StoreMember) string { return strings.Join(x.Addresses, ",") }},
			{name: "ELECTED", wide: true, text: func(x *pb.StoreMember) string { return yesNo(x.Elected) }},
			{name: "APPLIED", wide: true, text: func(x *pb.StoreMember) string { return reported(x, fmt.Sprint(x.Applied)) }},
		},
	}
}

// reported is a text about a member whose server has answered.
func reported(x *pb.StoreMember, text string) string {
	if !x.Reported {
		return ""
	}
	return text
}

// membersVerb lists and changes the members of the embedded store.
func membersVerb(c *cli) *cobra.Command {
	watch := false
	read := func() ([]*pb.StoreMember, error) {
		got, err := call(c, calls.ListMembers, &pb.ListMembersRequest{})
		return got.GetMembers(), err
	}
	cmd := &cobra.Command{
		Use: "members", Short: "List the members of the embedded store", Args: atMost(0, "none"),
		Long: "members lists the servers that have one embedded store together (--initial-cluster). A learner gets all " +
			"entries and does not vote yet. BEHIND is the number of entries that a member lacks. Any server answers.",
		Example: "  cantina server members\n  cantina server members -o json",
		RunE: func(*cobra.Command, []string) error {
			if watch {
				return polled(c, memberTable(), read)
			}
			all, err := read()
			if err != nil {
				return err
			}
			return list(c, memberTable(), all)
		},
	}
	watchFlag(cmd, &watch)
	out := c.reading(cmd)
	out.AddCommand(addMemberVerb(c), removeMemberVerb(c))
	return out
}

func addMemberVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "add NAME=HOST:PORT", Short: "Add a member to the embedded store", Args: exactly(1, "NAME=HOST:PORT"),
		Long: "add adds a member that does not vote yet. Then start its server with an empty data directory, the printed " +
			"list and --join. It votes as soon as it has all entries. HOST:PORT is its address for traffic of members.",
		Example: "  cantina server members add d=10.0.0.8:7490\n" +
			"  cantina server --name d --initial-cluster a=10.0.0.5:7490,b=10.0.0.6:7490,d=10.0.0.8:7490 --join",
		RunE: func(_ *cobra.Command, args []string) error {
			name, peer, ok := strings.Cut(args[0], "=")
			if !ok {
				return failf(api.ExitUsage, "%q: must be NAME=HOST:PORT", args[0])
			}
			got, err := call(c, calls.AddMember, &pb.AddMemberRequest{Name: name, Peer: peer})
			if err != nil {
				return err
			}
			all := strings.Join(got.InitialCluster, ",")
			c.notef("%s: added; start its server with --name %s --initial-cluster %s --join\n", name, name, all)
			return answer(c, factTable("member", "initial_cluster"),
				fact(map[string]any{"member": name, "initial_cluster": all}))
		},
	}
	return c.writing(cmd)
}

func removeMemberVerb(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove MEMBER", Short: "Remove a member from the embedded store", Args: exactly(1, "MEMBER"),
		Long: "remove removes a member, by name or id; its server ends. To replace a member whose machine or disk is lost, " +
			"remove it and add one with the same name or another. Start that with an empty data directory and --join.",
		Example: "  cantina server members remove c --yes\n  cantina server members add c=10.0.0.7:7490",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := c.confirm("remove member %s from the store; its server ends", args[0]); err != nil {
				return err
			}
			if _, err := call(c, calls.RemoveMember, &pb.RemoveMemberRequest{Name: args[0]}); err != nil {
				return err
			}
			c.notef("%s: removed\n", args[0])
			return answer(c, factTable("member", "result"), fact(map[string]any{"member": args[0], "result": "removed"}))
		},
	}
	c.needYes(cmd)
	return c.writing(cmd)
}
