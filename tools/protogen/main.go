// Protogen compiles .proto files and runs code generator plugins over them: the
// part of protoc that Tenure needs, without anything to install but Go.
//
//	protogen -root proto -out proto -plugin protoc-gen-go=paths=source_relative tenure/v1/lease.proto
//
// Files are named relative to -root, and so are their imports; the well-known
// types of protobuf are built in. A plugin is a command in PATH, or a path,
// and may be followed by "=" and its parameter. Plugins run in the order given,
// and what they generate is written below -out.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	root := flag.String("root", ".", "directory in which files and their imports are found")
	out := flag.String("out", ".", "directory below which generated files are written")
	var plugins []string
	flag.Func("plugin", "generator to run, as NAME or NAME=PARAMETER; may be repeated", func(s string) error {
		plugins = append(plugins, s)
		return nil
	})
	flag.Parse()
	if flag.NArg() == 0 || len(plugins) == 0 {
		fmt.Fprintln(os.Stderr, "protogen: name at least one -plugin and one file")
		flag.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), *root, *out, plugins, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out string, plugins, files []string) error {
	all, err := compile(ctx, root, files)
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		name, parameter, _ := strings.Cut(plugin, "=")
		request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, ProtoFile: all}
		if parameter != "" {
			request.Parameter = &parameter
		}
		if err := generate(ctx, name, out, request); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// compile returns the files and all they import, each after what it imports, as
// plugins expect them.
func compile(ctx context.Context, root string, files []string) ([]*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become Go comments
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return nil, err
	}
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range compiled {
		add(f)
	}
	return all, nil
}

func generate(ctx context.Context, plugin, out string, request *pluginpb.CodeGeneratorRequest) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, plugin)
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s", *response.Error)
	}
	for _, f := range response.File {
		if err := write(out, f); err != nil {
			return err
		}
	}
	return nil
}

func write(out string, f *pluginpb.CodeGeneratorResponse_File) error {
	if f.GetInsertionPoint() != "" || !filepath.IsLocal(f.GetName()) {
		return fmt.Errorf("it asks for %q at insertion point %q, which is not supported", f.GetName(), f.GetInsertionPoint())
	}
	name := filepath.Join(out, filepath.FromSlash(f.GetName()))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(f.GetContent()), 0o666)
}
