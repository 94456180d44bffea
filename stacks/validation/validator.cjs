// The CDK's own plugin for CloudFormation's rules, in a process of its own: the CDK's library as argument, and stacks on stdin, as the
// CDK hands them to a plugin; its report on stdout. The rules are compiled before anything is read.
'use strict'
const { readFileSync } = require('node:fs')
const { setPriority } = require('node:os')
const { CloudFormationValidatePlugin } = require(`${process.argv[2]}/core/lib/validation/cloudformation-validate-plugin.js`)

setPriority(5) // it has time until the templates are there; the app has not
const plugin = new CloudFormationValidatePlugin()
const stackTemplates = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify({ version: plugin.version, ...plugin.validate({ stackTemplates }) }))
