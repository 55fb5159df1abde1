// The options of hyc-run and of every compiled program: a row each, from which come the member of RunOptions, parsing,
// --help, what hyc-run hands on to the ranks, and the checks in front of a run. To add an option, add a row, and read
// its member where it acts.
//
//   HYC_RUN_OPTION(type, member, default, flag, values, traits, help)
//
// values: text(NAME) of a string, wholeNumber(NAME, most) of a number, words<E>({{"auto", E::kAuto}, …}) of an enum,
// whose default comes first, flagFor(value) where the flag alone sets the member. The member of a text is empty
// where the option is not given; on a command line no value may be empty (refuseEmptyValues in base/command_line.h).
// traits (src/run/options.cpp): kForRanks: hyc-run hands it on, and all ranks must be given the same, unless it is
// kOwn, each rank's own; kTrains: contradicts --evaluate; kOfTraining: only programs that train take it, evaluated or
// not; and of what is written: kFile: one that is made anew (kJson: and holds JSON), kStream: one that may also be a
// pipe or a device, kWeights: a folder or file of weights, kFolder: one that gets new files. kTells: of what is told of
// a run, which hyc-run does, and rank 0 where another launcher has started it.

HYC_RUN_OPTION(
    std::string, data, {}, "--data", text("FILE"), kForRanks | kOwn,
    "What to train on. Tokens: a file of hyc data's, Megatron's .bin beside its .idx, an llm.c .bin, text, whose "
    "bytes they are, or what --data-format says. Anything else: NAME.safetensors, one tensor an input, "
    "dimension 0 the sample. Several: A=0.7,B=0.3, by weights, or A,B, each sample once an epoch")
HYC_RUN_OPTION(DataFormat, dataFormat, DataFormat::kAuto, "--data-format",
               words<DataFormat>({{"auto", DataFormat::kAuto},
                                  {"bytes", DataFormat::kBytes},
                                  {"llmc", DataFormat::kLlmc},
                                  {"uint16", DataFormat::kUint16},
                                  {"uint32", DataFormat::kUint32}}),
               kForRanks,
               "How --data holds its tokens, where it is neither text nor one of llm.c's files; uint16 and uint32: one "
               "after the other, without a header")
HYC_RUN_OPTION(int64_t, steps, 100, "--steps", wholeNumber("N", kMostSteps, &RunOptions::limitsSteps), kForRanks,
               "Training steps; schedules decay over them")
HYC_RUN_OPTION(bool, evaluate, false, "--evaluate", flagFor(true), kForRanks,
               "Tell the loss over the data, in file order and once, and train nothing; --steps limits the batches")
HYC_RUN_OPTION(std::string, evaluateData, {}, "--evaluate-data", text("FILE"), kForRanks | kOwn | kTrains,
               "Held-out data, as --data: tell the loss over it, in file order, after the last step and as "
               "--evaluate-every says; of what was compiled with --entry train,evaluate. Training's bits stay the same")
HYC_RUN_OPTION(int64_t, evaluateEvery, 0, "--evaluate-every", wholeNumber("N", kMostSteps), kForRanks | kTrains,
               "Evaluate after every N steps, too; 0: only after the last")
HYC_RUN_OPTION(int64_t, evaluateBatches, 0, "--evaluate-batches", wholeNumber("N", kMostSteps), kForRanks | kTrains,
               "Global batches of --evaluate-data to evaluate at most; 0: all that it fills")
HYC_RUN_OPTION(uint64_t, seed, 0, "--seed", wholeNumber("S", UINT64_MAX, &RunOptions::seedGiven), kForRanks,
               "Seed of the initial weights and of the order of the data; of a run that is resumed the checkpoint's")
HYC_RUN_OPTION(int, threads, 0, "--threads", wholeNumber("N", kMostThreads), kForRanks | kOwn,
               "Threads per rank; 0: as compiled, by default the cores divided by the ranks")
HYC_RUN_OPTION(WindowOrder, order, WindowOrder::kShuffled, "--no-shuffle", flagFor(WindowOrder::kInFile), kForRanks,
               "Take the windows of the data in file order")
HYC_RUN_OPTION(
    bool, shufflesDocuments, false, "--shuffle-documents", flagFor(true), kForRanks | kTrains,
    "Of a token file that tells where documents begin: take the documents in another order each epoch, and cut "
    "windows from that; without it windows are cut from the file and shuffled")
HYC_RUN_OPTION(
    std::string, batchShares, {}, "--batch-shares", text("N[,N...]"), kForRanks | kTrains,
    "How many micro-batches of a step each data-parallel coordinate takes, in their order, where ranks are not equally "
    "fast: 1 to what was compiled (--grad-accum) each; not where ranks meet in every micro-batch (ZeRO 2, 3)")
HYC_RUN_OPTION(std::string, logFile, {}, "--log-file", text("FILE"), kStream | kTells,
               "Write one JSON object per step here")
HYC_RUN_OPTION(
    std::string, csv, {}, "--csv", text("FILE"), kStream | kTells,
    "Write a row of comma-separated values per step here, for spreadsheets and pandas; with --resume the file "
    "is gone on with")
HYC_RUN_OPTION(std::string, tensorboard, {}, "--tensorboard", text("DIR"), kFolder | kTells,
               "Write an event per step into a new file in this folder, for tensorboard --logdir DIR, by torchtitan's "
               "names")
HYC_RUN_OPTION(
    std::string, prometheus, {}, "--prometheus", text("[ADDRESS:]PORT"), kTells,
    "Give the newest metrics to Prometheus and others who ask there (http, /metrics); without ADDRESS only to "
    "this host, with port 0 at one that is free, which is told")
HYC_RUN_OPTION(
    std::string, prometheusTextfile, {}, "--prometheus-textfile", text("FILE"), kFile | kTells,
    "Write the newest metrics here, at most once a second, for node_exporter's textfile collector: FILE.prom")
HYC_RUN_OPTION(std::string, dumpGradients, {}, "--dump-gradients", text("FILE"), kForRanks | kFile | kTrains,
               "Write the first step's gradients of the mean loss, by parameter name (safetensors)")
HYC_RUN_OPTION(std::string, saveWeights, {}, "--save-weights", text("FOLDER"), kForRanks | kWeights | kTrains,
               "Write the trained parameters at the end: a folder that transformers loads, or one file where the name "
               "ends in .safetensors; of adapters (hyc-compile --lora) a folder that peft loads")
HYC_RUN_OPTION(
    bool, merge, false, "--merge", flagFor(true), kForRanks | kTrains,
    "Have --save-weights write the model's own weights with the adapters of hyc-compile --lora added to them, "
    "and not the adapters alone")
HYC_RUN_OPTION(std::string, checkpoint, {}, "--checkpoint", text("DIR"), kForRanks | kTrains,
               "Write checkpoints here, a folder step-N each: after the last step, and as --checkpoint-every says")
HYC_RUN_OPTION(int64_t, checkpointEvery, 0, "--checkpoint-every", wholeNumber("N", kMostSteps), kForRanks | kTrains,
               "Write a checkpoint after every N steps, too; 0: only after the last")
HYC_RUN_OPTION(int64_t, keep, 0, "--keep", wholeNumber("K", kMostSteps), kForRanks | kTrains,
               "Keep the newest K checkpoints and remove the others; 0: all of them")
HYC_RUN_OPTION(std::string, resume, {}, "--resume", text("DIR"), kForRanks | kOfTraining,
               "Go on from the newest whole checkpoint in DIR, from DIR/step-N, or with auto from the newest in "
               "--checkpoint, where there is one; whatever layout wrote it. --steps stays the total. With --evaluate: "
               "what the checkpoint has is evaluated")
HYC_RUN_OPTION(CheckpointFailure, checkpointFailure, CheckpointFailure::kStop, "--checkpoint-failure",
               words<CheckpointFailure>({{"stop", CheckpointFailure::kStop}, {"warn", CheckpointFailure::kWarn}}),
               kForRanks | kTrains, "Whether a checkpoint that cannot be written ends the run")
HYC_RUN_OPTION(
    CheckpointMode, checkpointMode, CheckpointMode::kAuto, "--checkpoint-mode",
    words<CheckpointMode>(
        {{"auto", CheckpointMode::kAuto}, {"async", CheckpointMode::kAsync}, {"sync", CheckpointMode::kSync}}),
    kForRanks | kTrains,
    "Whether training goes on while a copy of the states is written (async), or waits until they are (sync); "
    "auto: goes on where the host has the memory for the copy")
HYC_RUN_OPTION(
    int64_t, timeLimit, 0, "--time-limit", wholeNumber("SECONDS", kMostSeconds), kForRanks | kTrains,
    "Write a checkpoint and end with 75 before that many seconds are over; 0: never. SLURM_JOB_END_TIME does "
    "the same")
HYC_RUN_OPTION(int64_t, maxRestarts, 0, "--max-restarts", wholeNumber("N", kMostSteps), kTrains,
               "Where a rank or a host fails, start all ranks again from the newest checkpoint, so many times at most; "
               "not after wrong usage or data, which would come again")
HYC_RUN_OPTION(
    CopyPlace, copy, CopyPlace::kNone, "--copy",
    words<CopyPlace>({{"none", CopyPlace::kNone}, {"neighbour", CopyPlace::kNeighbour}}), kForRanks | kTrains,
    "Keep a copy of the states in the memory of another host of --hostfile (neighbour), while training goes on, from "
    "which --max-restarts goes on where it is newer than the newest checkpoint: of a host that is lost one step is "
    "done "
    "again at most, without a disk")
HYC_RUN_OPTION(int64_t, copyEvery, 1, "--copy-every", wholeNumber("N", kMostSteps), kForRanks | kTrains,
               "Make the copy of --copy after every N steps")
HYC_RUN_OPTION(
    int64_t, verifyStates, 0, "--verify-states", wholeNumber("N", kMostSteps), kForRanks | kTrains,
    "Compare what several ranks hold of parameters and optimizer states after every N steps, and before each "
    "checkpoint; bits that differ end the run and name the rank. 0: never")
HYC_RUN_OPTION(bool, allowNonfinite, false, "--allow-nonfinite", flagFor(true), kForRanks,
               "Go on where the loss or the gradient norm is NaN or infinite, which ends a run otherwise; weights that "
               "are replace no others even so")
HYC_RUN_OPTION(std::string, trace, {}, "--trace", text("FILE"), kForRanks | kFile | kJson,
               "Write when ranks computed, waited and communicated in the ten steps after the first, for Perfetto or "
               "chrome://tracing (JSON)")
HYC_RUN_OPTION(std::string, profile, {}, "--profile", text("FILE"), kForRanks | kFile | kJson | kTrains,
               "Measure every kernel and exchange of the steps after the first, on all ranks, beside what they would "
               "take at the roof: a table at the end, FILE (JSON), and beside it a page with a flame graph (.html)")
HYC_RUN_OPTION(
    int64_t, replanAfter, 0, "--replan-after", wholeNumber("N", kMostSteps), kForRanks | kTrains,
    "After N steps write what --profile measures, of these alone (into --profile FILE, else OUT.profile.json), "
    "and have hyc-compile look for a better layout by it, while training goes on; 0: never")
HYC_RUN_OPTION(
    ReplanMode, replan, ReplanMode::kPropose, "--replan",
    words<ReplanMode>({{"propose", ReplanMode::kPropose}, {"auto", ReplanMode::kAuto}}), kTrains,
    "What becomes of a better layout: it is told with the command that compiles it (propose), or compiled into "
    "OUT.replan, and taken up at a checkpoint (auto; with --checkpoint, on one host)")
HYC_RUN_OPTION(int64_t, replanMargin, 10, "--replan-margin", wholeNumber("PERCENT", 99), kTrains,
               "How much of a step's time a layout has to save to be better")
HYC_RUN_OPTION(std::string, replanWith, {}, "--replan-with", text("FOLDER[,FOLDER...]"), kTrains,
               "Of --replan-after: folders compiled beforehand, of which the best is proposed or taken up, in place of "
               "looking for a layout and compiling it")
HYC_RUN_OPTION(CommunicationThread, communicationThread, CommunicationThread::kAuto, "--communication-thread",
               words<CommunicationThread>({{"auto", CommunicationThread::kAuto},
                                           {"on", CommunicationThread::kOn},
                                           {"off", CommunicationThread::kOff}}),
               kForRanks | kOwn,
               "Whether exchanges progress on a thread of their own; auto: where there is a core for it")
HYC_RUN_OPTION(int64_t, exchangeTimeout, 600, "--exchange-timeout", wholeNumber("SECONDS", kMostSeconds), kForRanks,
               "How long ranks wait for one of them that neither comes to an exchange nor moves, before the run ends "
               "with a line that names it; 0: for ever")
HYC_RUN_OPTION(
    DeviceComm, comm, DeviceComm::kAuto, "--comm",
    words<DeviceComm>({{"auto", DeviceComm::kAuto}, {"nccl", DeviceComm::kNccl}, {"shm", DeviceComm::kStaged}}),
    kForRanks,
    "How ranks on GPUs exchange tensors: nccl (a GPU a rank), or shm, by way of the host, where ranks may "
    "share a GPU; auto: nccl where there are several ranks")
HYC_RUN_OPTION(
    int64_t, ranks, 0, "--ranks", wholeNumber("N", kMostSteps), 0,
    "Which of the sizes that the folder was compiled for to start; 0: the largest that the hosts of --hostfile "
    "have slots for, or the largest")
HYC_RUN_OPTION(bool, asRank, false, "--as-rank", flagFor(true), 0,
               "Become the rank that torchrun, srun or mpirun tells this process to be, of the size that they started")
HYC_RUN_OPTION(std::string, hostfile, {}, "--hostfile", text("FILE"), 0,
               "Hosts to run on, by ssh, as DeepSpeed's hostfiles have them: a line each, NAME slots=RANKS")
HYC_RUN_OPTION(std::string, include, {}, "--include", text("HOSTS"), 0,
               "Of the hostfile only these: a whole host, or slots of one, as in a:0,1@b")
HYC_RUN_OPTION(std::string, exclude, {}, "--exclude", text("HOSTS"), 0, "Of the hostfile all but these, as --include")
HYC_RUN_OPTION(int, sshPort, 0, "--ssh-port", wholeNumber("N", kMostPort), 0, "Port of ssh on these hosts")
HYC_RUN_OPTION(bool, copyOut, false, "--copy-out", flagFor(true), 0,
               "Copy the compiled folder, by ssh, to hosts of --hostfile that lack it, and what has changed of it to "
               "those that have it from before; a folder that did not come by here is left as it is")
HYC_RUN_OPTION(TransportChoice, transport, TransportChoice::kAuto, "--transport",
               words<TransportChoice>(
                   {{"auto", TransportChoice::kAuto}, {"tcp", TransportChoice::kTcp}, {"ucx", TransportChoice::kUcx}}),
               kForRanks,
               "How tensors pass between ranks by way of their hosts; auto: by memory within a host, by TCP between "
               "hosts; tcp: always; ucx: by UCX between hosts, in the clear, on a network where nobody else is")
HYC_RUN_OPTION(std::string, interface, {}, "--interface", text("NAME|CIDR"), kForRanks | kOwn,
               "The network of this host that ranks of other hosts come by: an interface, or as 10.0.0.0/8; by default "
               "the one that leads to rank 0")
HYC_RUN_OPTION(
    std::string, ports, {}, "--ports", text("LOW-HIGH"), kForRanks | kOwn,
    "Where each rank listens for those of other hosts, who meet at one of these, too; by default wherever the "
    "system has a free port")
HYC_RUN_OPTION(
    int, sockets, 1, "--sockets", wholeNumber("N", kMostSockets), kForRanks,
    "Connections between two ranks of different hosts, which take turns: where a network gives one less than "
    "it has, as that of a cloud may")
HYC_RUN_OPTION(bool, plaintext, false, "--plaintext", flagFor(true), kForRanks,
               "Let ranks of several hosts talk in the clear: they prove that they know the job's token, and what they "
               "exchange then can be read and changed on the way")
HYC_RUN_OPTION(
    StepRecording, cudaGraph, StepRecording::kAuto, "--cuda-graph",
    words<StepRecording>({{"auto", StepRecording::kAuto}, {"on", StepRecording::kOn}, {"off", StepRecording::kOff}}),
    kForRanks | kOwn,
    "Whether steps on a GPU are recorded once and then run as one CUDA graph; auto: where they can be, "
    "which is without --trace and --comm shm")
HYC_RUN_OPTION(bool, tf32, false, "--tf32", flagFor(true), kForRanks,
               "Let products of f32 round their factors to TF32 on GPUs: faster, and good to three digits")
HYC_RUN_OPTION(std::string, measureMemory, {}, "--measure-memory", text("FILE"), kForRanks | kFile | kJson,
               "Fill arenas with a pattern first, and write here how far each was written to (a JSON line a rank); "
               "on GPUs, what the device's memory came to")
HYC_RUN_OPTION(bool, poison, false, "--poison", flagFor(true), kForRanks,
               "Overwrite buffers where their planned life ends; only of what hyc-compile --poison made")
HYC_RUN_OPTION(std::string, nvmePath, {}, "--nvme-path", text("DIR"), kForRanks | kOwn,
               "Folder on a disk for what the plan keeps there, a file a rank")
