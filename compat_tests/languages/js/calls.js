// Makes the calls of a client and prints what each gave: a line of JSON per call.
'use strict'

const WAIT_MAX_MS = 20_000
const PAUSE_MS = 50

const DONE = 'done'
const SECURITY = 'needs security'
const NO_REQUEST = 'sends no request'

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

class Calls {
  constructor(name) {
    this.name = name
    this.called = new Set()
  }

  // Prints a result, or an error by its name in the protocol. The name is the method's, then "/" and
  // a remark where a method is called more than once.
  async call(name, body) {
    this.called.add(name.split('/')[0])
    try {
      const result = await body()
      this.#print(name, result === undefined ? DONE : result)
    } catch (error) {
      console.error(`${this.name}.${name}: ${error.stack}`)
      this.#print(name, { error: errorName(error) })
    }
  }

  // Calls until the result is the expected one, or time is up, and prints the last.
  async until(name, expected, body) {
    await this.call(name, async () => {
      const end = Date.now() + WAIT_MAX_MS
      for (;;) {
        const result = await body()
        if (JSON.stringify(result) === JSON.stringify(expected) || Date.now() > end) return result
        await sleep(PAUSE_MS)
      }
    })
  }

  // Prints which methods of a client were left out, and why, and which are not called at all.
  print(client, leftOut = {}) {
    const methods = Object.keys(client).filter(name => typeof client[name] === 'function')
    this.#print('left out', leftOut)
    this.#print('uncalled', methods.filter(name => !this.called.has(name) && !(name in leftOut)).sort())
  }

  #print(name, result) {
    console.log(JSON.stringify({ call: `${this.name}.${name}`, result }))
  }
}

function errorName(error) {
  const cause = error.groups?.[0]?.error ?? error.partitions?.[0]?.error ?? error.errors?.[0] ?? error.cause ?? error
  return cause.type ?? error.type ?? `${error.name}: ${error.message}`
}

// Waits for a condition; fails after a while.
async function until(condition, what, waitMax = WAIT_MAX_MS) {
  const end = Date.now() + waitMax
  while (!condition()) {
    if (Date.now() > end) throw new Error(`${what}: not within ${waitMax} ms`)
    await sleep(PAUSE_MS)
  }
}

module.exports = { Calls, DONE, NO_REQUEST, SECURITY, sleep, until }
